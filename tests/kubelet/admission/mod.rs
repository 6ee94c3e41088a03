//! Tests of the admission webhook on a real cluster. The tests install the webhook like a user, and the API server
//! calls the webhook.

mod assigned;
mod calls;
mod copies;
pub(crate) mod install;
mod late;
mod workloads;
mod wrong_order;

use crate::clock::eventually;
use crate::cluster::{self, kubectl, kubectl_json, try_kubectl};
use crate::scene::Scene;
use calls::AdmissionCalls;
use install::{Helm, InstalledWebhook, NAMESPACE};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use workloads::{labeled_pod, mistyped_pod, ordered_pod, plain_pod, pod_with_bad_order, pod_with_unknown_container};

/// Returns the CA certificates with which the API server verifies the webhook.
fn ca_bundle() -> String {
    let configuration = kubectl_json(&["get", "mutatingwebhookconfiguration", "zz-podgate-webhook"]);
    configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
}

/// Runs `kubectl podgate` with this standard input. Returns its standard output and standard error.
fn podgate_output(arguments: &[&str], input: &str) -> String {
    let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").unwrap_or("kubectl-podgate");
    let mut command = assert_cmd::Command::new(program);
    if cluster::is_test_cluster() {
        command.env("KUBECONFIG", cluster::run_script(&["kubeconfig"]).trim());
    }
    let output = command.args(arguments).write_stdin(input).output().expect("kubectl podgate runs");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
}

/// Returns the output of `kubectl podgate verify` with a test Pod in this namespace.
pub(crate) fn verify_output(namespace: &str) -> String {
    podgate_output(&["verify", "-n", namespace], "")
}

/// Creates `pod` in a dry run. Returns true if the result has podgate's sidecar.
fn is_injected(namespace: &str, pod: &Value) -> Result<bool, String> {
    let call = ["kubectl", "-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
    cluster::try_script(&call, &pod.to_string()).map(|created| created.contains("podgate-controller"))
}

/// Asserts that the webhook's own token permits changes to `caBundle`, and no other change to the configuration.
fn assert_policy_limits_the_webhook() {
    let token = format!("--token={}", kubectl(&["-n", NAMESPACE, "create", "token", "podgate-webhook"]).trim());
    let patch = |path: &str, value: Value| {
        let patch = json!([{"op": "add", "path": path, "value": value}]).to_string();
        let object = ["patch", "mutatingwebhookconfiguration", "zz-podgate-webhook", "--type=json", "--dry-run=server"];
        try_kubectl(&[&[token.as_str()], &object[..], &["-p", &patch]].concat())
    };
    let bundle = ca_bundle();
    for path in ["/webhooks/0/clientConfig/caBundle", "/webhooks/1/clientConfig/caBundle"] {
        patch(path, bundle.as_str().into()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let mut second = kubectl_json(&["get", "mutatingwebhookconfiguration", "zz-podgate-webhook"])["webhooks"][0].take();
    second["name"] = "second.podgate.io".into();
    for (path, value) in [
        ("/webhooks/0/rules/0/resources", json!(["*"])),
        ("/webhooks/0/clientConfig/service/name", json!("other")),
        ("/webhooks/0/failurePolicy", json!("Ignore")),
        ("/webhooks/0/matchConditions", json!([])),
        ("/webhooks/1/rules/0/resources", json!(["*"])),
        ("/webhooks/-", second),
        ("/metadata/labels/a", json!("b")),
        ("/metadata/finalizers", json!(["example.com/f"])),
    ] {
        let error = patch(path, value).expect_err(path);
        assert!(error.contains("only caBundle may change"), "{path}: {error}");
    }
}

/// Installs the webhook with `kubectl apply -k`. Tests four workloads, denied Pods, the loss of a replica, frequent
/// certificate renewals, an outage and the uninstallation.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn kustomize_installs_the_webhook() {
    let _lock = install::install_lock();
    let scene = Scene::shared("webhook");
    scene.grant_pod_access();
    let namespace = scene.namespace.as_str();
    let installed = InstalledWebhook::by_kustomize(namespace, &["--certificate-life=60s"]);
    let calls = AdmissionCalls::begin(namespace);
    let mut bundles = BTreeSet::from([ca_bundle()]);
    let before = verify_output(namespace);
    assert!(before.contains("[injected]") && !before.contains("missing-policy"), "{before}");

    for workload in workloads::all() {
        workload.assert_starts_in_order(&scene);
    }

    let refused =
        cluster::try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], &pod_with_bad_order().to_string())
            .unwrap_err();
    let expected = workloads::inject_errors(&pod_with_bad_order());
    assert!(refused.contains("admission webhook \"pods.podgate.io\" denied the request: "), "{refused}");
    assert!(refused.contains(&expected), "{refused}\nmust contain\n{expected}");
    scene.report(&refused);

    // The webhook lets this Pod pass, because another webhook could add the container. The policy denies the Pod.
    let unknown = pod_with_unknown_container();
    let refused = cluster::try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], &unknown.to_string());
    let refused = refused.unwrap_err();
    assert!(refused.contains("ValidatingAdmissionPolicy 'podgate-unknown-containers'"), "{refused}");
    let expected = format!("podgate - {}", workloads::inject_errors(&unknown));
    assert!(refused.contains(&expected), "{refused}\nmust contain\n{expected}");
    scene.report(&refused);
    late::assert_late_container_is_ordered(&scene);
    assigned::assert_undeclared_pods_are_ordered(&scene);

    let dry = cluster::try_script(
        &["kubectl", "-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"],
        &ordered_pod("dry").to_string(),
    );
    let dry = dry.unwrap();
    let checked = podgate_output(&["check", "-"], &dry);
    assert!(checked.contains("1 template checked: 0 errors, 0 warnings"), "{checked}");
    let dry: serde_json::Value = serde_json::from_str(&dry).unwrap();
    assert_eq!(dry["spec"]["initContainers"][0]["name"], "podgate");
    assert!(try_kubectl(&["-n", namespace, "get", "pod", "dry"]).unwrap_err().contains("not found"));

    // Delete one replica, as a drain of its node would.
    let pods = kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"]);
    assert_eq!(pods.lines().count(), 2, "{pods}");
    kubectl(&["-n", NAMESPACE, "delete", "--wait", pods.lines().next().expect("a pod")]);
    installed.wait_for_rollout();
    bundles.insert(ca_bundle());
    // Replace all replicas, one by one.
    kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment/podgate-webhook"]);
    installed.wait_for_rollout();
    eventually("the certificates have been renewed twice", 180, || {
        bundles.insert(ca_bundle());
        // Each renewal changes the bundle twice: the webhook adds the new CA and later removes the old CA.
        (bundles.len() >= 5).then_some(())
    });
    let results = calls.end();
    assert_eq!(results.failures, [""; 0], "of {} calls", results.count);
    scene.report(&format!("{} admissions while replicas stopped and certificates changed, none failed", results.count));

    assert!(is_injected(namespace, &labeled_pod("enabled", "enabled")).unwrap());
    assert!(!is_injected(namespace, &labeled_pod("disabled", "disabled")).unwrap());
    kubectl(&["label", "--overwrite", "namespace", namespace, "podgate.io/inject=disabled"]);
    eventually("the namespace is not selected", 30, || {
        (!is_injected(namespace, &ordered_pod("out")).unwrap()).then_some(())
    });
    kubectl(&["label", "--overwrite", "namespace", namespace, "podgate.io/inject=enabled"]);
    eventually("the namespace is selected", 30, || is_injected(namespace, &ordered_pod("in")).unwrap().then_some(()));
    assert_policy_limits_the_webhook();

    // Outage: no replica runs.
    kubectl(&["-n", NAMESPACE, "scale", "deployment/podgate-webhook", "--replicas=0"]);
    eventually("all replicas are deleted", 60, || {
        let pods = kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"]);
        pods.trim().is_empty().then_some(())
    });
    // The API server does not call the webhook for these Pods.
    assert!(!is_injected(namespace, &labeled_pod("disabled", "disabled")).unwrap());
    cluster::create(namespace, &plain_pod("untouched").to_string());
    let untouched = kubectl_json(&["-n", namespace, "get", "pod", "untouched"]);
    assert!(untouched["spec"].get("initContainers").is_none());
    assigned::assert_outage_admits_undeclared_pods(&scene);
    let refused =
        cluster::try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], &ordered_pod("refused").to_string());
    let refused = refused.unwrap_err();
    assert!(refused.contains("failed calling webhook \"pods.podgate.io\""), "{refused}");
    scene.report(&refused);
    let mistyped = is_injected(namespace, &mistyped_pod("mistyped")).unwrap_err();
    assert!(mistyped.contains("failed calling webhook"), "the webhook must get Pods with mistyped keys: {mistyped}");
    kubectl(&["-n", NAMESPACE, "scale", "deployment/podgate-webhook", "--replicas=2"]);
    installed.wait_for_rollout();
    eventually("the webhook answers again", 30, || {
        let call = ["kubectl", "-n", namespace, "create", "--dry-run=server", "-f", "-"];
        cluster::try_script(&call, &ordered_pod("again").to_string()).ok()
    });

    // Injected Pods do not need the webhook.
    installed.uninstall();
    install::assert_nothing_left();
    let after = verify_output(namespace);
    assert!(after.contains("[missing-webhook]"), "{after}");
    let pods = kubectl_json(&["-n", namespace, "get", "pods", "-l", "app=stateful"]);
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    cluster::create(namespace, &ordered_pod("without").to_string());
    let without = kubectl_json(&["-n", namespace, "get", "pod", "without"]);
    assert!(without["spec"].get("initContainers").is_none(), "the Pod must be unchanged");
}

/// Runs `verify` in a namespace that the webhook skips, and with Pod Security and a quota. Runs `check` with a running
/// Pod.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn verify_reports_what_the_cluster_does_to_the_pod() {
    let _lock = install::install_lock();
    let scene = Scene::shared("dryrun");
    scene.grant_pod_access();
    let namespace = scene.namespace.as_str();
    let installed = InstalledWebhook::by_kustomize(namespace, &[]);
    // Pods of other tests can be in the cluster too, so other findings are possible.
    let is_fine = |output: &str| {
        let rules = ["not-injected", "injected-changed", "sidecar-not-first", "pod-rejected", "dry-run-skipped"];
        output.contains("[injected]") && !rules.iter().any(|rule| output.contains(&format!("[{rule}]")))
    };
    let output = verify_output(namespace);
    assert!(is_fine(&output), "{output}");

    cluster::create(namespace, &ordered_pod("checked").to_string());
    let pod = kubectl(&["-n", namespace, "get", "pod", "checked", "-o", "yaml"]);
    let output = podgate_output(&["check", "-"], &pod);
    assert!(output.contains("1 template checked: 0 errors, 0 warnings"), "{output}");
    kubectl(&["-n", namespace, "delete", "pod", "checked", "--wait", "--grace-period=1"]);

    kubectl(&["label", "namespace", namespace, "podgate.io/inject=disabled"]);
    eventually("verify reports that the webhook skips the Pod", 30, || {
        verify_output(namespace).contains("[not-injected]").then_some(())
    });
    kubectl(&["label", "namespace", namespace, "podgate.io/inject-"]);
    eventually("the webhook injects the Pod", 30, || is_fine(&verify_output(namespace)).then_some(()));

    // The Pod of `verify` and podgate's own parts meet the level.
    kubectl(&["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    eventually("Pod Security acts", 30, || {
        let call = ["kubectl", "-n", namespace, "create", "--dry-run=server", "-f", "-"];
        cluster::try_script(&call, &ordered_pod("checked").to_string()).is_err().then_some(())
    });
    let output = verify_output(namespace);
    assert!(is_fine(&output), "{output}");
    kubectl(&["label", "namespace", namespace, "pod-security.kubernetes.io/enforce-"]);

    kubectl(&["-n", namespace, "create", "quota", "small", "--hard=pods=0"]);
    let output = eventually("verify reports the quota", 30, || {
        Some(verify_output(namespace)).filter(|output| output.contains("exceeded quota: small"))
    });
    assert!(output.contains("[pod-rejected]") && output.contains("podgate.io/sidecar-resources"), "{output}");
    scene.report(&output);
    let pods = kubectl(&["-n", namespace, "get", "pods", "-o", "name"]);
    assert_eq!(pods.trim(), "", "a dry run must create nothing");
    kubectl(&["-n", namespace, "delete", "quota", "small"]);
    installed.uninstall();
    install::assert_nothing_left();
}

/// Runs `helm install`, `upgrade` and `uninstall`.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn helm_chart_installs_the_webhook() {
    let _lock = install::install_lock();
    let Some(helm) = Helm::find() else { return };
    let scene = Scene::shared("chart");
    scene.grant_pod_access();
    let installed = InstalledWebhook::by_helm(helm, &scene.namespace);
    workloads::deployment().assert_starts_in_order(&scene);
    let before = ca_bundle();
    let calls = AdmissionCalls::begin(&scene.namespace);
    installed.upgrade(&["extraArgs={--log-level=debug}"]);
    installed.wait_for_rollout();
    let results = calls.end();
    assert_eq!(results.failures, [""; 0], "of {} calls", results.count);
    assert_eq!(ca_bundle(), before, "an upgrade must keep the certificates");
    let deployment = kubectl_json(&["-n", NAMESPACE, "get", "deployment", "podgate-webhook"]);
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(arguments.as_array().is_some_and(|all| all.contains(&json!("--log-level=debug"))), "{arguments}");
    installed.uninstall();
    install::assert_nothing_left();
}

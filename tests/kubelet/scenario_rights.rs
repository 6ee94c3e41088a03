//! Tests permissions: sidecars with few permissions or none, forged annotations, and the admission policy.

use crate::clock::eventually;
use crate::cluster::{kubectl, requests_of, try_kubectl};
use crate::orders::chain;
use crate::pod::{Pod, server};
use crate::scene::Scene;
use crate::watch::ObservedPod;
use serde_json::{Value, json};

const NAMES: [&str; 3] = ["db", "api", "web"];

fn podgate_annotations(pod: &Value) -> Vec<&String> {
    let annotations = pod["metadata"]["annotations"].as_object();
    annotations.into_iter().flat_map(|all| all.keys()).filter(|key| key.contains("podgate.io/")).collect()
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_needs_no_api_permission() {
    let scene = Scene::shared("no-rights");
    let run = scene.create(&chain("no-rights", "1500ms"));
    let up = run.watch.wait_until("the pod is ready", 120, ObservedPod::is_ready);
    run.assert_order(&NAMES);
    assert_eq!(podgate_annotations(&up.pod), [""; 0]);
    let log = run.sidecar_log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("forbidden") || warnings[0].contains("403"), "{log}");
    scene.report(warnings[0]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_needs_no_token() {
    let scene = Scene::shared("no-token");
    let pod = chain("no-token", "1500ms").sidecar_args(&["--publish", "none"]).without_token();
    let run = scene.create(&pod);
    let up = run.watch.wait_until("the pod is ready", 120, ObservedPod::is_ready);
    run.assert_order(&NAMES);
    assert_eq!(podgate_annotations(&up.pod), [""; 0]);
    let log = run.sidecar_log();
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
    if crate::cluster::is_test_cluster() {
        assert_eq!(requests_of(&scene.namespace), []);
    }
}

/// Status annotations in the manifest, for example from a template, must not release any hook. The sidecar removes such
/// annotations.
fn assert_forged_annotations_open_nothing(name: &str, sandbox: &str) {
    let scene = Scene::shared(name);
    scene.grant_pod_access();
    let annotations = json!({
        "status.podgate.io/db": "Ready", "status.podgate.io/api": "Ready", "status.podgate.io/web": "Ready",
        "status.podgate.io/ghost": "Ready",
        "sandbox.podgate.io/id": sandbox, "sandbox.podgate.io/epoch": "forged", "sandbox.podgate.io/stage": "started",
        "sandbox.podgate.io/revision": "9007199254740991", "sandbox.podgate.io/order": "db,api,web",
        "sandbox.podgate.io/stuck": "db=Ended",
        "override.podgate.io/db": format!("Ready@{sandbox}"), "override.podgate.io/api": "Ready",
        "example.com/users-own": "stays",
    });
    let run = scene.create(&chain(name, "2s").with(json!({"metadata": {"annotations": annotations}})));
    let up = run
        .watch
        .wait_until("the pod is up", 120, |s| s.is_up() && s.annotation("sandbox.podgate.io/epoch") != Some("forged"));
    let lives = run.assert_order(&NAMES);
    for gated in &lives[..2] {
        assert_eq!(gated.last_message(), "released: all conditions are met", "{}", gated.name);
    }
    assert_eq!(up.podgate_state("ghost"), None);
    assert_eq!(up.annotation("sandbox.podgate.io/stuck"), None);
    assert_ne!(up.annotation("sandbox.podgate.io/id"), Some(sandbox));
    assert_eq!(up.annotation("example.com/users-own"), Some("stays"));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn forged_annotations_of_another_sandbox_open_nothing() {
    assert_forged_annotations_open_nothing("forged", "3f2a9c1e-4097-1a0c5f3b");
}

/// In a sandbox id, a part that is 0 means "unknown" and matches every value. If the sidecar trusted the id 0-0-0,
/// every sandbox would match.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn forged_annotations_for_any_sandbox_open_nothing() {
    assert_forged_annotations_open_nothing("forged-any", "0-0-0");
}

/// The sidecar's token permits changes to podgate's annotations on the sidecar's own Pod, and nothing else.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn policy_limits_sidecars_to_their_own_annotations() {
    let scene = Scene::shared("policy");
    scene.grant_pod_access();
    let namespace = scene.namespace.as_str();
    let user = format!("--as=system:serviceaccount:{namespace}:default");
    let can = |verb: &str| try_kubectl(&["-n", namespace, "auth", "can-i", verb, "pods", &user]).is_ok();
    eventually("the role takes effect", 30, || (can("patch") && can("watch")).then_some(()));
    assert!(!can("get") && !can("list") && !can("delete"));
    // `kubectl patch` reads the Pod before it sends the patch.
    kubectl(&["-n", namespace, "create", "role", "reader", "--verb=get", "--resource=pods"]);
    let account = format!("--serviceaccount={namespace}:default");
    kubectl(&["-n", namespace, "create", "rolebinding", "reader", "--role=reader", &account]);
    let pods = ["one", "two"].map(|name| {
        let pod = Pod::new(name, [server("app")]).with(json!({"metadata": {"annotations": {"example.com/a": "1"}}}));
        let run = scene.create(&pod);
        run.watch.wait_until("the Pod exists", 60, |s| s.pod["metadata"]["uid"].is_string()).pod
    });
    let uid = pods[0]["metadata"]["uid"].as_str().expect("a uid");
    let bound = ["--bound-object-kind", "Pod", "--bound-object-name", "one", "--bound-object-uid", uid];
    let token =
        |bound: &[&str]| kubectl(&[&["-n", namespace, "create", "token", "default"], bound].concat()).trim().to_owned();
    let (bound, unbound) = (token(&bound), token(&[]));

    let patch = |token: &str, pod: &str, patch: Value| {
        let token = format!("--token={token}");
        try_kubectl(&["-n", namespace, &token, "patch", "pod", pod, "--type=merge", "-p", &patch.to_string()])
    };
    let annotate = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let status = || annotate("status.podgate.io/db", "Ready".into());
    // The policy and the permissions take effect a moment after `kubectl apply`.
    eventually("the policy is in force", 30, || {
        let refused = patch(&bound, "two", status()).err().filter(|e| e.contains("not bound to this pod"));
        refused.and_then(|_| patch(&bound, "one", status()).ok())
    });

    let large = annotate("status.podgate.io/db", "x".repeat(4096).into());
    let allowed = [
        status(),
        annotate("sandbox.podgate.io/stage", "starting".into()),
        large,
        annotate("status.podgate.io/db", Value::Null),
        json!({}),
    ];
    for allowed in &allowed {
        patch(&bound, "one", allowed.clone()).unwrap_or_else(|error| panic!("{allowed}: {error}"));
    }
    let mut with_label = status();
    with_label["metadata"]["labels"] = json!({"a": "b"});
    let refused = [
        ("one", annotate("example.com/a", "2".into()), "only annotations under"),
        ("one", annotate("example.com/a", Value::Null), "only annotations under"),
        ("one", annotate("example.com/new", "1".into()), "only annotations under"),
        ("one", annotate("override.podgate.io/db", "Ready".into()), "only annotations under"),
        ("one", annotate("podgate.io/order", "web".into()), "only annotations under"),
        ("one", annotate("status.podgate.io.example.com/db", "Ready".into()), "only annotations under"),
        ("one", annotate("status.podgate.io/db", "x".repeat(4097).into()), "only annotations under"),
        ("one", json!({"metadata": {"annotations": null}}), "only annotations under"),
        ("one", json!({"metadata": {"labels": {"a": "b"}}}), "only annotations may change"),
        ("one", with_label, "only annotations may change"),
        ("one", json!({"metadata": {"finalizers": ["example.com/f"]}}), "only annotations may change"),
        ("one", json!({"spec": {"activeDeadlineSeconds": 1}}), "only annotations may change"),
        ("one", json!({"spec": {"containers": [{"name": "app", "image": "example.com/x"}]}}), ""),
        ("two", status(), "not bound to this pod"),
        ("two", json!({}), "not bound to this pod"),
    ];
    for (pod, refused, why) in &refused {
        match patch(&bound, pod, refused.clone()) {
            Ok(_) => panic!("the policy allowed {refused} on {pod}"),
            Err(error) => assert!(error.contains(why), "{pod}, {refused}: {error}"),
        }
    }
    let error = patch(&unbound, "one", status()).expect_err("a token that is bound to no Pod must be refused");
    assert!(error.contains("not bound to this pod"), "{error}");
    for refused in
        [&["get", "pods"][..], &["delete", "pod", "one"], &["patch", "pod", "one", "--subresource=status", "-p", "{}"]]
    {
        let token = format!("--token={bound}");
        let error =
            try_kubectl(&[&["-n", namespace, &token], refused].concat()).expect_err("the role must not allow this");
        assert!(error.contains("orbidden"), "{refused:?}: {error}");
    }
    scene.report(&format!("{} allowed, {} refused", allowed.len(), refused.len() + 4));
}

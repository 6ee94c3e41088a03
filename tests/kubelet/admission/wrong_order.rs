//! Tests of workloads whose Pods podgate denies: the warnings when a workload is created, and the findings of `verify`.

use super::install::{self, InstalledWebhook};
use super::verify_output;
use super::workloads::{ordered_pod, pod_with_bad_order, pod_with_unknown_container};
use crate::clock::eventually;
use crate::cluster::TESTSERVER_IMAGE;
use crate::pages::Reader;
use crate::scene::Scene;
use serde_json::{Value, json};

/// Returns a workload with the Pod `pod` as its template. For a CronJob, the schedule never matches.
fn workload(kind: &str, name: &str, pod: &Value) -> Value {
    let mut template = json!({"metadata": pod["metadata"], "spec": pod["spec"]});
    template["metadata"].as_object_mut().expect("an object").remove("name");
    let selector = json!({"matchLabels": template["metadata"]["labels"]});
    if matches!(kind, "Job" | "CronJob") {
        template["spec"]["restartPolicy"] = "Never".into();
    }
    let (group, spec) = match kind {
        "CronJob" => ("batch", json!({"schedule": "0 0 30 2 *", "jobTemplate": {"spec": {"template": template}}})),
        "Job" => ("batch", json!({"template": template})),
        "StatefulSet" => ("apps", json!({"serviceName": name, "selector": selector, "template": template})),
        _ => ("apps", json!({"selector": selector, "template": template})),
    };
    json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn wrong_order_is_told_when_a_workload_is_created() {
    let _lock = install::install_lock();
    let scene = Scene::shared("wrong-order");
    scene.grant_pod_access();
    let namespace = scene.namespace.as_str();
    let installed = InstalledWebhook::by_kustomize(namespace, &[]);
    let reader = Reader::new(&scene);
    let image = json!({TESTSERVER_IMAGE: {"entrypoint": ["/testserver"], "digest": format!("sha256:{:064}", 1)}});
    reader.save("images.json", &image.to_string());
    reader.run("kubectl -n podgate create configmap podgate-images --from-file=images.json");
    let apply = |workload: &Value, flags: &str| {
        reader.save("workload.json", &workload.to_string());
        reader.run(&format!("kubectl apply -f workload.json {flags}")).all_output
    };
    let unknown = |at: &str| {
        format!("Warning: podgate: {at}.metadata.annotations[\"podgate.io/order\"]: there is no container apii")
    };
    for (kind, at) in [
        ("StatefulSet", "spec.template"),
        ("DaemonSet", "spec.template"),
        ("ReplicaSet", "spec.template"),
        ("Job", "spec.template"),
        ("CronJob", "spec.jobTemplate.spec.template"),
    ] {
        let output = apply(&workload(kind, "dry", &pod_with_unknown_container()), "--dry-run=server");
        assert!(output.contains(&unknown(at)), "{kind}: {output}");
    }

    // The policy denies the Pods of the Deployment. The webhook denies the Pods of the StatefulSet.
    let output = apply(&workload("Deployment", "unknown", &pod_with_unknown_container()), "");
    assert!(output.contains(&unknown("spec.template")) && output.contains("created"), "{output}");
    scene.report(&output);
    let output = apply(&workload("StatefulSet", "bad", &pod_with_bad_order()), "");
    assert!(output.contains("Warning: podgate: spec.template.metadata.annotations"), "{output}");
    for (workload, reason) in [("Deployment/unknown", "there is no container apii"), ("StatefulSet/bad", "ready")] {
        let start = format!("podgate denies the Pods of {workload} in the namespace {namespace}: ");
        let found = eventually("verify lists the workload", 60, || {
            let output = verify_output(namespace);
            output.lines().find(|line| line.contains(&start)).map(str::to_owned)
        });
        assert!(found.contains(reason) && found.ends_with("[pods-denied]"), "{found}");
        scene.report(&found);
    }

    // These changes do not change the template.
    for command in [
        "kubectl scale deployment/unknown --replicas=2",
        "kubectl patch deployment/unknown -p '{\"spec\": {\"replicas\": 1}}'",
        "kubectl annotate deployment/unknown example.com/a=b",
    ] {
        let output = reader.run(command).all_output;
        assert!(!output.contains("Warning: podgate"), "{output}");
    }
    let order = |order: &str| {
        let metadata = json!({"annotations": {"podgate.io/order": order}});
        let patch = json!({"spec": {"template": {"metadata": metadata}}});
        reader.run(&format!("kubectl patch deployment/unknown -p '{patch}'")).all_output
    };
    let output = order("db, apii, api, web");
    assert!(output.contains(&unknown("spec.template")), "{output}");
    let output = order("db, api, web");
    assert!(!output.contains("Warning: podgate"), "{output}");
    reader.run("kubectl rollout status deployment/unknown --timeout=2m");
    eventually("verify no longer lists the Deployment", 60, || {
        (!verify_output(namespace).contains("Deployment/unknown")).then_some(())
    });

    // The kubelet shows a new ConfigMap to the webhook's replicas within about a minute. Until then, the webhook uses
    // hold mode, which needs Kubernetes 1.35, so it denies the Pod on 1.34.
    let mut usual = ordered_pod("usual");
    let containers = usual["spec"]["containers"].as_array_mut().expect("containers");
    containers.iter_mut().for_each(|own| _ = own.as_object_mut().expect("a container").remove("command"));
    let output = eventually("the webhook knows the image's command", 150, || {
        let output = apply(&usual, "--dry-run=server -o json || true");
        output.contains("\"entrypoint\"").then_some(output)
    });
    assert!(output.contains("web (sha256:000000000000)") && !output.contains("fileKeyRef"), "{output}");

    // Without a replica of the webhook, the API server creates the workload without a warning.
    reader.run("kubectl -n podgate scale deployment/podgate-webhook --replicas=0");
    eventually("the webhook does not answer", 60, || {
        let output = apply(&workload("Job", "outage", &pod_with_unknown_container()), "--dry-run=server");
        (!output.contains("Warning: podgate")).then_some(())
    });
    reader.run("kubectl delete deployment/unknown statefulset/bad");
    installed.uninstall();
    install::assert_nothing_left();
}

//! Tests of copies of a running Pod, as backup tools and `kubectl debug` create them.

use super::install::{self, InstalledWebhook};
use super::workloads::ordered_pod;
use crate::cluster::{TESTSERVER_IMAGE, create, kubectl, kubectl_json, try_script};
use crate::scene::Scene;

const ORDER: [&str; 3] = ["db", "api", "web"];

/// A running Pod has the injected parts, the API server's defaults and the states that its sidecar has published. The
/// webhook removes the states from a copy of such a Pod.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn copies_of_a_running_pod_start_in_order() {
    let _lock = install::install_lock();
    let scene = Scene::shared("copies");
    scene.grant_pod_access();
    let namespace = scene.namespace.as_str();
    let installed = InstalledWebhook::by_kustomize(namespace, &[]);
    let run = scene.follow("original");
    create(namespace, &ordered_pod("original").to_string());
    run.watch.wait_until("the states are published", 120, |pod| pod.podgate_state("web") == Some("Ready"));
    let id =
        kubectl_json(&["-n", namespace, "get", "pod", "original"])["metadata"]["annotations"]["sandbox.podgate.io/id"]
            .take();

    let image = format!("--set-image=web={TESTSERVER_IMAGE}");
    let keep = ["annotations", "labels", "liveness", "readiness", "startup"].map(|what| format!("--keep-{what}"));
    let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
    let assert_copy = |name: &str, make: &dyn Fn()| {
        let run = scene.follow(name);
        make();
        let up = run.watch.wait_until("the copy is up", 120, |pod| {
            pod.is_up() && pod.annotation("sandbox.podgate.io/id").is_some_and(|own| *own != id)
        });
        assert!(up.annotation("podgate.io/injected").is_some(), "{name}");
        run.assert_order(&ORDER);
        // The sidecar adds the states, so the API server must have stored the copy without them.
        let first = run.watch.history().swap_remove(0);
        assert_eq!(first.annotation("sandbox.podgate.io/id"), None, "{name}");
    };
    assert_copy("debugged", &|| {
        let copy = ["-n", namespace, "debug", "original", "--copy-to=debugged", &image];
        kubectl(&[&copy[..], &keep].concat());
    });
    assert_copy("restored", &|| {
        let mut pod = kubectl_json(&["-n", namespace, "get", "pod", "original"]);
        pod["metadata"]["name"] = "restored".into();
        let metadata = pod["metadata"].as_object_mut().expect("an object");
        metadata.retain(|field, _| !["uid", "resourceVersion", "creationTimestamp"].contains(&field.as_str()));
        create(namespace, &pod.to_string());
    });
    let dump = kubectl_json(&["-n", namespace, "get", "pod", "debugged"]).to_string();
    try_script(&["kubectl", "-n", namespace, "replace", "--force", "-f", "-"], &dump)
        .unwrap_or_else(|error| panic!("replace: {error}"));
    installed.uninstall();
}

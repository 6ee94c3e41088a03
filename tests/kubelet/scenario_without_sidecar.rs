//! Tests Pods without a sidecar: each gate runs the probes of its predecessors itself.

use crate::cluster::kubectl_json;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use serde_json::json;

/// Returns the chain `db`, `api`, `web` without a sidecar. `db` is ready after `after`.
pub(crate) fn lean_chain(after: &str, ports: u16) -> [Container; 3] {
    let db = server("db").http(ports + 1).ready_after(after);
    let api = server("api").http(ports + 2).ready_after("500ms");
    let web = server("web").http(ports + 3);
    let web = web.asking(&[&db, &api], &[]);
    let api = api.asking(&[&db], &[]);
    [db, api, web]
}

/// Waits until the kubelet reports that the Pod is Ready, and asserts the order and that nothing has restarted.
fn assert_started(run: &FollowedPod<'_>) {
    run.watch.wait_until("the Pod is Ready", 90, crate::watch::ObservedPod::is_ready);
    run.assert_order(&["db", "api", "web"]);
    let seen = run.watch.last().expect("the Pod");
    for name in ["db", "api", "web"] {
        assert_eq!(seen.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn lean_chain_starts_in_order_without_permissions() {
    let scene = Scene::shared("lean");
    let run = scene.create(&Pod::new("lean", lean_chain("1500ms", 8000)));
    assert_started(&run);
    let pod = kubectl_json(&["-n", &scene.namespace, "get", "pod", "lean"]);
    assert!(pod["spec"]["initContainers"].is_null(), "{pod:#}");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn lean_chain_starts_on_the_host_network() {
    let scene = Scene::shared("lean-host");
    let pod = Pod::new("lean", lean_chain("1500ms", 28_700)).with(json!({"spec": {"hostNetwork": true}}));
    assert_started(&scene.create(&pod));
}

//! Tests Pods without a sidecar: each gate runs the probes of its predecessors itself.

use crate::cluster::{kubectl_json, minor_version};
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene, print_line};
use serde_json::json;

/// Returns true if the node has image volumes: Kubernetes 1.35 and containerd 2.1. Otherwise prints a line.
pub(crate) fn has_image_volumes(name: &str) -> bool {
    let nodes = kubectl_json(&["get", "nodes"]);
    let runtime = nodes["items"][0]["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap_or_default();
    let version = runtime.trim_start_matches("containerd://");
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = minor_version() >= 35 && parts.next().zip(parts.next()).is_some_and(|version| version >= (2, 1));
    if !found {
        print_line(&format!("{name}: skipped, because {runtime} or the kubelet has no image volumes"));
    }
    found
}

/// Creates a scene; `None` if the node has no image volumes.
pub(crate) fn lean_scene(name: &str) -> Option<Scene> {
    has_image_volumes(name).then(|| Scene::shared(name))
}

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
    let Some(scene) = lean_scene("lean") else { return };
    let run = scene.create(&Pod::new("lean", lean_chain("1500ms", 8000)));
    assert_started(&run);
    let pod = kubectl_json(&["-n", &scene.namespace, "get", "pod", "lean"]);
    assert!(pod["spec"]["initContainers"].is_null(), "{pod:#}");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn lean_chain_starts_on_the_host_network() {
    let Some(scene) = lean_scene("lean-host") else { return };
    let pod = Pod::new("lean", lean_chain("1500ms", 28_700)).with(json!({"spec": {"hostNetwork": true}}));
    assert_started(&scene.create(&pod));
}

/// The kubelet never asks the agent for anything but an exec: a chain of thirty gates starts one after another.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn thirty_lean_containers_start_in_order() {
    let Some(scene) = lean_scene("lean-thirty") else { return };
    let mut chain: Vec<Container> = Vec::new();
    for number in 0..30 {
        let own = server(&format!("c{number:02}")).http(8000 + number);
        // Each gate asks only the two containers before it, so that the Pod stays small.
        let before: Vec<&Container> = chain.iter().rev().take(2).rev().collect();
        chain.push(if before.is_empty() { own } else { own.clone().asking(&before, &[]) });
    }
    let pod = Pod::new("lean", chain);
    let names: Vec<String> = pod.names().into_iter().map(str::to_owned).collect();
    let run = scene.create(&pod);
    run.watch.wait_until("the Pod is Ready", 120, crate::watch::ObservedPod::is_ready);
    run.assert_order(&names.iter().map(String::as_str).collect::<Vec<_>>());
}

/// A gate in a Pod with its own user namespace, and with a program that runs as another user than the gate.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn opened_passes_after_a_change_of_the_user() {
    let Some(scene) = lean_scene("lean-users") else { return };
    let [db, api, web] = lean_chain("1s", 8000);
    let api = api.running_as_root();
    let web = web.with(json!({"securityContext": {"readOnlyRootFilesystem": true, "runAsUser": 4711}}));
    assert_started(&scene.create(&Pod::new("lean", [db, api, web])));
}

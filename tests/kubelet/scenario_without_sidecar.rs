//! Tests Pods without a sidecar: each gate runs the probes of its predecessors itself.

use crate::cluster::{DEBIAN_IMAGE, create, kubectl, kubectl_json, minor_version};
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene, skip};
use serde_json::json;

/// Returns true if the node has image volumes: Kubernetes 1.35 and containerd 2.1. Otherwise prints a line.
pub(crate) fn has_image_volumes(name: &str) -> bool {
    let nodes = kubectl_json(&["get", "nodes"]);
    let runtime = nodes["items"][0]["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap_or_default();
    let version = runtime.trim_start_matches("containerd://");
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = minor_version() >= 35 && parts.next().zip(parts.next()).is_some_and(|version| version >= (2, 1));
    if !found {
        skip(name, &format!("{runtime} or the kubelet has no image volumes"));
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

#[test]
#[ignore = "needs a cluster: make e2e"]
fn opened_passes_for_other_users() {
    let Some(scene) = lean_scene("lean-users") else { return };
    let [db, api, web] = lean_chain("1s", 8000);
    let api = api.running_as_root();
    let web = web.with(json!({"securityContext": {"readOnlyRootFilesystem": true, "runAsUser": 4711}}));
    assert_started(&scene.create(&Pod::new("lean", [db, api, web])));
}

/// `gosu` and `setpriv` change the user and then execute the program, as the entrypoints of many images do. A probe of
/// another user cannot read `/proc/1/exe` of such a program.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn opened_passes_after_gosu_and_setpriv() {
    let Some(scene) = lean_scene("lean-gosu") else { return };
    let [db, ..] = lean_chain("2s", 8000);
    let changing_user = |name: &str, port: u16, command: &[&str], asked: &[&Container]| {
        let container = server(name).http(port).asking(asked, &[]);
        let port = port.to_string();
        let command = [command, &["python3", "-u", "-m", "http.server", port.as_str()]].concat();
        container.with(
            json!({"image": DEBIAN_IMAGE, "args": command, "securityContext": {"runAsUser": 0, "runAsNonRoot": false,
            "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]}}}),
        )
    };
    let gosu = changing_user("gosu", 8011, &["gosu", "nobody"], &[&db]);
    let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let setpriv = changing_user("setpriv", 8012, &setpriv, &[&db, &gosu]);
    let web = server("web").http(8003).asking(&[&db, &gosu, &setpriv], &[]);
    let run = scene.create(&Pod::new("lean", [db, gosu, setpriv, web]));
    run.watch.wait_until("the Pod is Ready", 90, crate::watch::ObservedPod::is_ready);
    run.assert_order(&["db", "web"]);
    let seen = run.watch.last().expect("the Pod");
    for name in ["gosu", "setpriv"] {
        let status = seen.kubelet_status(name);
        assert_eq!((&status["restartCount"], &status["started"]), (&json!(0), &json!(true)), "{name}");
        let id = kubectl(&["-n", &scene.namespace, "exec", "lean", "-c", name, "--", "stat", "-c", "%u", "/proc/1"]);
        assert_eq!(id.trim(), "65534", "{name}");
    }
}

/// Volumes of images are mounted with mapped ids, and the processes have other user ids than on the node.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn lean_chain_starts_in_a_user_namespace() {
    let Some(scene) = lean_scene("lean-user-namespace").filter(Scene::has_user_namespaces) else { return };
    let run = scene.create(&Pod::new("lean", lean_chain("1500ms", 8000)).with(json!({"spec": {"hostUsers": false}})));
    assert_started(&run);
}

/// A LimitRange sets the resources of all containers, so the Pod is Guaranteed: podgate adds no container.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn lean_chain_is_guaranteed_by_a_limit_range() {
    let Some(scene) = lean_scene("lean-limit-range") else { return };
    let limits = json!({"type": "Container", "default": {"cpu": "200m", "memory": "64Mi"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"},
        "spec": {"limits": [limits]}});
    create(&scene.namespace, &range.to_string());
    assert_started(&scene.create(&Pod::new("lean", lean_chain("1500ms", 8000))));
    let pod = kubectl_json(&["-n", &scene.namespace, "get", "pod", "lean"]);
    assert_eq!(pod["status"]["qosClass"], "Guaranteed");
}

//! Tests of Pods in clusters with strict rules.

use crate::cluster::{create, kubectl, minor_version};
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use serde_json::{Value, json};

/// File that `db` creates when `db` is Ready.
const READY_FILE: &str = "/podgate-self/ready";

/// Returns a Pod with a wrapped `exec` probe, a gate and, if this Kubernetes has hold mode, a held container.
fn pod_of_all_modes(name: &str, patch: impl Fn(Container) -> Container) -> Pod {
    let db = server("db").args(&["--touch", READY_FILE]).ready_after("1s");
    let db = db.wrapped_probe(&["/testserver", "check", READY_FILE]);
    let api = server("api").http(8002).gate(&["--until", "db"]);
    let (web, until) = (server("web").http(8003), ["--until", "db", "--until", "api"]);
    let web = if minor_version() < 35 { web.gate(&until) } else { web.held(&until) };
    Pod::new(name, [db, api, web].map(patch))
}

fn assert_starts_in_order(run: &FollowedPod) {
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    for name in ["podgate", "db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}

/// The namespace admits only "restricted" Pods, a LimitRange sets the resources, and a ResourceQuota counts the
/// resources. The containers cannot write to their root file system, and can see each other's processes.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restricted_pod_with_shared_processes_starts_in_order() {
    let scene = Scene::shared("strict");
    scene.grant_pod_access();
    kubectl(&["label", "namespace", &scene.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    let limits = json!({"type": "Container", "max": {"cpu": "1", "memory": "128Mi"},
        "default": {"cpu": "500m", "memory": "64Mi"}, "min": {"cpu": "10m", "memory": "8Mi"}, "defaultRequest": {"cpu": "10m", "memory": "16Mi"}});
    let hard = json!({"pods": "1", "requests.cpu": "100m", "requests.memory": "128Mi", "limits.memory": "256Mi"});
    let objects = [
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": [limits]}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}}),
    ];
    create(&scene.namespace, &json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    let read_only = |container: Container| container.with(json!({"securityContext": {"readOnlyRootFilesystem": true}}));
    let pod = pod_of_all_modes("strict", read_only).with(json!({"spec": {"shareProcessNamespace": true}}));
    assert_starts_in_order(&scene.create(&pod));
}

/// The volume hides the runtime's `/etc/hostname`, from which podgate identifies the sandbox.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pod_with_its_own_hostname_file_starts_in_order() {
    for host_network in [false, true] {
        let scene = Scene::shared(if host_network { "hostname-host" } else { "hostname" });
        scene.grant_pod_access();
        let containers = [
            server("db").http(28_031).ready_after("1s"),
            server("api").http(28_032).gate(&["--until", "db"]),
            server("web").http(28_033).gate(&["--until", "db", "--until", "api"]),
        ];
        let mut pod = Pod::new("hostname", containers).with(json!({"spec": {"hostNetwork": host_network}})).json();
        let mut push =
            |list: &str, item| pod.pointer_mut(list).and_then(Value::as_array_mut).expect("a list").push(item);
        push("/spec/volumes", json!({"name": "hostname", "hostPath": {"path": "/etc/hostname", "type": "File"}}));
        let mount = json!({"name": "hostname", "mountPath": "/etc/hostname", "readOnly": true});
        push("/spec/containers/1/volumeMounts", mount);
        let run = scene.follow("hostname");
        create(&scene.namespace, &pod.to_string());
        assert_starts_in_order(&run);
    }
}

/// In a user namespace, the user ids of the containers differ from those on the node, and the volumes are mounted with
/// mapped ids.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pod_in_a_user_namespace_starts_in_order() {
    let scene = Scene::shared("user-namespace");
    if !scene.has_user_namespaces() {
        return;
    }
    scene.grant_pod_access();
    let pod = pod_of_all_modes("user-namespace", |container| container).with(json!({"spec": {"hostUsers": false}}));
    let run = scene.create(&pod);
    assert_starts_in_order(&run);
    if Scene::can_inject_faults("user-namespace") {
        let map =
            std::fs::read_to_string(format!("/proc/{}/uid_map", run.pid("web").expect("web runs"))).expect("a map");
        assert_ne!(map.split_whitespace().nth(1), Some("0"), "web runs in the node's user namespace: {map}");
    }
}

/// Both Pods use the node's network namespace, so each sidecar sees the sockets of both.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn two_pods_on_the_host_network_start_in_order() {
    let scene = Scene::shared("two-host-network");
    scene.grant_pod_access();
    let pod = |name: &str, ports: u16, after: &str| {
        let containers = [
            server("db").http(ports).ready_after(after),
            server("api").http(ports + 1).gate(&["--until", "db"]),
            server("web").http(ports + 2).gate(&["--until", "api"]),
        ];
        Pod::new(name, containers).with(json!({"spec": {"hostNetwork": true}}))
    };
    let runs = [("first", 28_011, "3s"), ("second", 28_021, "1s")]
        .map(|(name, ports, after)| scene.create(&pod(name, ports, after)));
    runs.iter().for_each(assert_starts_in_order);
}

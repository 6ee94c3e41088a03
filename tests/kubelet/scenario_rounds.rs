//! Tests second starts of the same Pod. The board still has all files from the first start.

use crate::cluster::{minor_version, run_script};
use crate::orders::chain;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene, skip};
use crate::watch::ObservedPod;
use serde_json::json;

const NAMES: [&str; 3] = ["db", "api", "web"];

fn revision(seen: &ObservedPod) -> u64 {
    seen.annotation("sandbox.podgate.io/revision").and_then(|r| r.parse().ok()).expect("a revision")
}

fn sandbox_id(seen: &ObservedPod) -> String {
    seen.annotation("sandbox.podgate.io/id").expect("a sandbox id").to_owned()
}

fn epoch(seen: &ObservedPod) -> String {
    seen.annotation("sandbox.podgate.io/epoch").expect("an epoch").to_owned()
}

/// Waits until the Pod has started, calls `restart` to make all containers start again, and asserts the order of both
/// starts. Returns the observed Pod after the first start and after the second start.
pub(crate) fn start_twice(run: &FollowedPod<'_>, restart: impl FnOnce()) -> (ObservedPod, ObservedPod) {
    let first = run.wait_until_up();
    run.assert_order(&NAMES);
    let board = run.board_annotations("podgate").expect("a board");
    assert_eq!(board.get("sandbox.podgate.io/stage").map(String::as_str), Some("started"), "{board:?}");
    let seen = run.watch.len();
    restart();
    let container = |s: &ObservedPod, name: &str| s.kubelet_status(name)["containerID"].as_str().map(str::to_owned);
    let replaced = |s: &ObservedPod| NAMES.iter().all(|name| container(s, name) != container(&first, name));
    let second = run.watch.wait_from(seen, "up again", 120, |s| s.is_up() && replaced(s) && epoch(s) != epoch(&first));
    run.assert_order(&NAMES);
    assert!(revision(&second) > revision(&first), "{} after {}", revision(&second), revision(&first));
    (first, second)
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_killed_sandbox() {
    let scene = Scene::shared("sandbox");
    if !Scene::can_inject_faults("sandbox") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("sandbox", "2s"));
    let (first, second) = start_twice(&run, || _ = run_script(&["kill-sandbox", &scene.namespace, "sandbox"]));
    assert_ne!(sandbox_id(&first), sandbox_id(&second));
    scene.report(&format!("sandbox {} -> {}", sandbox_id(&first), sandbox_id(&second)));
}

/// On the host network, all sandbox ids contain the cookie of the node's network namespace. The rest of the id must
/// differ.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_killed_sandbox_on_host_network() {
    let scene = Scene::shared("host-network");
    if !Scene::can_inject_faults("host-network") {
        return;
    }
    scene.grant_pod_access();
    let containers = [
        server("db").http(28_001).ready_after("2s").hook(&[]),
        server("api").http(28_002).ready_after("500ms").hook(&[]),
        server("web").http(28_003),
    ];
    let run = scene.create(&Pod::new("host-network", containers).with(json!({"spec": {"hostNetwork": true}})));
    let (first, second) = start_twice(&run, || _ = run_script(&["kill-sandbox", &scene.namespace, "host-network"]));
    let (first, second) = (sandbox_id(&first), sandbox_id(&second));
    assert_ne!(first, second);
    let cookie = |id: &str| id.split('-').nth(1).map(str::to_owned);
    assert_eq!(cookie(&first), cookie(&second), "both sandboxes must have the node's cookie");
    scene.report(&format!("sandbox {first} -> {second}"));
}

/// Makes the kubelet restart all containers of the Pod when `web` receives SIGUSR1.
pub(crate) fn web_that_restarts_all(web: Container) -> Container {
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}});
    web.args(&["--exit-code", "88"]).with(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}))
}

/// `RestartAllContainers` (Kubernetes 1.36 and later) restarts all containers in the same sandbox, without back-off and
/// preStop hooks.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_restart_of_all_containers() {
    let scene = Scene::shared("restart-all");
    if !Scene::can_inject_faults("restart-all") {
        return;
    }
    if minor_version() < 36 {
        skip("restart-all", "RestartAllContainers needs Kubernetes 1.36");
        return;
    }
    scene.grant_pod_access();
    let containers = [
        server("db").http(8001).ready_after("2s").hook(&[]),
        server("api").http(8002).ready_after("500ms").hook(&[]),
        web_that_restarts_all(server("web").http(8003)),
    ];
    let run = scene.create(&Pod::new("restart-all", containers));
    let (first, second) = start_twice(&run, || run.signal("web", "USR1"));
    assert_eq!(sandbox_id(&first), sandbox_id(&second), "the sandbox must be the same");
    scene.report(&format!("epoch {} -> {}", epoch(&first), epoch(&second)));
}

/// `db` and the sidecar restart at the same time, so the new hook of `db` runs while the sidecar is still starting.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pod_recovers_when_db_and_sidecar_restart_together() {
    let scene = Scene::shared("both-restart");
    if !Scene::can_inject_faults("both-restart") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("both-restart", "2s"));
    let first = run.wait_until_up();
    run.assert_order(&NAMES);
    let seen = run.watch.len();
    run.signal("podgate", "KILL");
    run.signal("db", "KILL");
    let ready = |s: &ObservedPod| NAMES.iter().all(|name| s.kubelet_status(name)["ready"] == true);
    let second = run.watch.wait_from(seen, "up again", 90, |s| {
        s.is_up() && ready(s) && s.kubelet_status("db")["restartCount"] == 1 && epoch(s) != epoch(&first)
    });
    for name in ["api", "web"] {
        assert_eq!(second.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    scene.report(&format!("db: {}", run.log("db").last_message()));
}

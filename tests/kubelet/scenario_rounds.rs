//! Two starts on one board: the second with all that the first left behind lying there.

use crate::cluster::{minor_version, run_script};
use crate::orders::chain;
use crate::pod::{Pod, server};
use crate::scene::{FollowedPod, Scene, print_line};
use crate::watch::ObservedPod;
use serde_json::json;

const NAMES: [&str; 3] = ["db", "api", "web"];

fn revision(seen: &ObservedPod) -> u64 {
    seen.annotation("sandbox.podgate.io/revision").and_then(|r| r.parse().ok()).expect("a revision")
}

fn id(seen: &ObservedPod) -> String {
    seen.annotation("sandbox.podgate.io/id").expect("a sandbox id").to_owned()
}

fn epoch(seen: &ObservedPod) -> String {
    seen.annotation("sandbox.podgate.io/epoch").expect("an epoch").to_owned()
}

/// Lets the pod start, has `again` make it start once more, and asserts the order of both. Gives the first and the second
/// moment at which it was up.
fn two_rounds(run: &FollowedPod<'_>, again: impl FnOnce()) -> (ObservedPod, ObservedPod) {
    let first = run.wait_until_up();
    run.assert_order(&NAMES);
    let board = run.board_annotations("podgate").expect("a board");
    assert_eq!(board.get("sandbox.podgate.io/phase").map(String::as_str), Some("started"), "{board:?}");
    let seen = run.watch.len();
    again();
    let container = |s: &ObservedPod, name: &str| s.kubelet_status(name)["containerID"].as_str().map(str::to_owned);
    let replaced = |s: &ObservedPod| NAMES.iter().all(|name| container(s, name) != container(&first, name));
    let second = run.watch.wait_from(seen, "up again", 120, |s| s.is_up() && replaced(s) && epoch(s) != epoch(&first));
    run.assert_order(&NAMES);
    assert!(revision(&second) > revision(&first), "{} after {}", revision(&second), revision(&first));
    (first, second)
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn sandbox_killed() {
    let scene = Scene::shared("sandbox");
    if !Scene::can_inject_faults("sandbox") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("sandbox", "2s"));
    let (first, second) = two_rounds(&run, || _ = run_script(&["kill-sandbox", &scene.namespace, "sandbox"]));
    assert_ne!(id(&first), id(&second));
    scene.report(&format!("sandbox {} -> {}", id(&first), id(&second)));
}

/// On the host's network the cookie is the node's, the same in every sandbox: the rest of the id must tell them apart.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn sandbox_on_the_hosts_network_killed() {
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
    let (first, second) = two_rounds(&run, || _ = run_script(&["kill-sandbox", &scene.namespace, "host-network"]));
    let (first, second) = (id(&first), id(&second));
    assert_ne!(first, second);
    let cookie = |id: &str| id.split('-').nth(1).map(str::to_owned);
    assert_eq!(cookie(&first), cookie(&second), "the node's network has one cookie");
    scene.report(&format!("sandbox {first} -> {second}"));
}

/// All containers again, in the same sandbox, with no back-off and no preStop (from Kubernetes 1.36 on).
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restart_of_all_containers() {
    let scene = Scene::shared("restart-all");
    if !Scene::can_inject_faults("restart-all") {
        return;
    }
    if minor_version() < 36 {
        print_line("restart-all: left out, for this Kubernetes has no RestartAllContainers");
        return;
    }
    scene.grant_pod_access();
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}});
    let containers = [
        server("db").http(8001).ready_after("2s").hook(&[]),
        server("api").http(8002).ready_after("500ms").hook(&[]),
        server("web")
            .http(8003)
            .args(&["--exit-code", "88"])
            .with(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]})),
    ];
    let run = scene.create(&Pod::new("restart-all", containers));
    let (first, second) = two_rounds(&run, || run.signal("web", "USR1"));
    assert_eq!(id(&first), id(&second), "the sandbox is the same");
    scene.report(&format!("epoch {} -> {}", epoch(&first), epoch(&second)));
}

/// The sidecar and `db` at once: what restarts finds a controller that starts itself.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn db_and_sidecar_restart_together() {
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

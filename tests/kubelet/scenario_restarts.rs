//! Tests restarts of one container after the Pod has started.

use crate::orders::chain;
use crate::scene::Scene;
use crate::watch::ObservedPod;

/// Formats the kubelet's restart count and state of each container.
fn restarts_and_states(seen: &ObservedPod, names: &[&str]) -> Vec<String> {
    let format_one = |name: &&str| {
        format!("{name} {} {}", seen.kubelet_status(name)["restartCount"], seen.kubelet_status(name)["state"])
    };
    names.iter().map(format_one).collect()
}

/// Hooks run again at every restart. A waiting hook would block the whole Pod, so the hook must return at once.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_of_a_restarted_container_does_not_wait() {
    let scene = Scene::shared("db-restarts");
    if !Scene::can_inject_faults("db-restarts") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("db-restarts", "6s"));
    let before = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let seen = run.watch.len();
    run.signal("db", "KILL");
    // The kubelet reports a container as running only after its hook has returned.
    let running = run.watch.wait_from(seen, "db runs again", 60, |s| {
        s.kubelet_status("db")["restartCount"] == 1 && s.kubelet_status("db")["state"]["running"].is_object()
    });
    let again = run
        .watch
        .wait_from(seen, "all is ready again", 60, |s| s.kubelet_status("db")["restartCount"] == 1 && s.is_up());
    let db = run.log("db");
    assert!(
        running.at < db.ready_time(),
        "db's hook returned only {:.0} ms after db was ready",
        running.at - db.ready_time()
    );
    assert_eq!(db.last_message(), "released: the pod has started before, and a restart does not wait");
    let others = ["podgate", "api", "web"];
    assert_eq!(restarts_and_states(&before, &others), restarts_and_states(&again, &others));
    let shown = (running.at - db.start_time()) / 1000.0;
    scene.report(&format!(
        "db restarted; running {shown:+.2} s after its start, ready {:+.2}",
        (db.ready_time() - db.start_time()) / 1000.0
    ));
}

/// A restarted sidecar does not rely on earlier states, and determines all states again. No other container restarts.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restarted_sidecar_disturbs_no_other_container() {
    let scene = Scene::shared("sidecar-restarts");
    if !Scene::can_inject_faults("sidecar-restarts") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("sidecar-restarts", "1500ms"));
    let before = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let seen = run.watch.len();
    run.signal("podgate", "KILL");
    let epoch = |s: &ObservedPod| s.annotation("sandbox.podgate.io/epoch").map(str::to_owned);
    let first = run.watch.wait_from(seen, "a new epoch", 60, |s| epoch(s) != epoch(&before));
    let names = ["db", "api", "web"];
    let all_ready = |s: &ObservedPod| names.iter().all(|name| s.podgate_state(name) == Some("Ready"));
    let again = run.watch.wait_from(seen, "all containers are published as Ready again", 60, |s| {
        epoch(s) != epoch(&before) && s.is_up() && all_ready(s)
    });
    let revision = |s: &ObservedPod| s.annotation("sandbox.podgate.io/revision").and_then(|r| r.parse::<u64>().ok());
    assert!(revision(&again) > revision(&before), "{:?} after {:?}", revision(&again), revision(&before));
    assert_eq!(restarts_and_states(&before, &names), restarts_and_states(&again, &names));
    scene.report(&format!(
        "epoch {:?} -> {:?}, all Ready {:.0} ms after the new epoch appeared",
        epoch(&before),
        epoch(&again),
        again.at - first.at
    ));
}

//! One container restarts when all is up.

use crate::orders::chain;
use crate::scene::Scene;
use crate::watch::ObservedPod;

/// How often each container was started, and when last, by the kubelet's word.
fn starts(seen: &ObservedPod, names: &[&str]) -> Vec<String> {
    let one = |name: &&str| {
        format!("{name} {} {}", seen.kubelet_status(name)["restartCount"], seen.kubelet_status(name)["state"])
    };
    names.iter().map(one).collect()
}

/// Hooks run again at every restart, and a hook that waits freezes the whole pod: this one must not.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn db_restarts_when_all_is_up() {
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
    // The kubelet shows a container as running only when its hook has returned.
    let running = run.watch.wait_from(seen, "db runs again", 60, |s| {
        s.kubelet_status("db")["restartCount"] == 1 && s.kubelet_status("db")["state"]["running"].is_object()
    });
    let again = run
        .watch
        .wait_from(seen, "all is ready again", 60, |s| s.kubelet_status("db")["restartCount"] == 1 && s.is_up());
    let db = run.log("db");
    assert!(
        running.at < db.ready_time(),
        "its hook had returned {:.0} ms after db was ready",
        running.at - db.ready_time()
    );
    assert_eq!(db.last_message(), "released: the pod has started before, and a restart waits for nobody");
    let others = ["podgate", "api", "web"];
    assert_eq!(starts(&before, &others), starts(&again, &others));
    let shown = (running.at - db.start_time()) / 1000.0;
    scene.report(&format!(
        "db restarted; running {shown:+.2} s after its start, ready {:+.2}",
        (db.ready_time() - db.start_time()) / 1000.0
    ));
}

/// A sidecar that restarts believes nothing that it finds, and learns it all anew; nobody else is disturbed.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn sidecar_restarts_when_all_is_up() {
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
    let again = run.watch.wait_from(seen, "all is known to be ready again", 60, |s| {
        epoch(s) != epoch(&before) && s.is_up() && all_ready(s)
    });
    let revision = |s: &ObservedPod| s.annotation("sandbox.podgate.io/revision").and_then(|r| r.parse::<u64>().ok());
    assert!(revision(&again) > revision(&before), "{:?} after {:?}", revision(&again), revision(&before));
    assert_eq!(starts(&before, &names), starts(&again, &names));
    scene.report(&format!(
        "epoch {:?} -> {:?}, all Ready {:.0} ms after it showed",
        epoch(&before),
        epoch(&again),
        again.at - first.at
    ));
}

//! Tests the deletion of a Pod during or after its start.

use crate::clock::eventually;
use crate::orders::chain;
use crate::scene::Scene;
use serde_json::{Value, json};

/// A waiting hook must return when the Pod is deleted, because the kubelet does nothing else for the Pod while the hook
/// runs.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pod_is_deleted_in_time_while_a_hook_waits() {
    let scene = Scene::shared("deleted");
    scene.grant_pod_access();
    // After the deletion, the kubelet still starts api and web, and terminates them milliseconds later. Process 1 of a
    // PID namespace ignores SIGTERM until that process has installed a handler, so the kubelet would wait for the whole
    // grace period. In a shared PID namespace, the containers' processes are not process 1.
    let spec = json!({"terminationGracePeriodSeconds": 30, "shareProcessNamespace": true});
    let pod = chain("deleted", "10m").with(json!({"spec": spec}));
    let run = scene.create(&pod);
    run.watch.wait_until("db's hook waits", 60, |s| s.podgate_state("db") == Some("Started"));
    let took = run.delete();
    scene.report(&format!("gone {:.2} s after the deletion", took / 1000.0));
    assert_eq!(run.killed(), "");
    let ended = eventually("the kubelet reports that db has terminated", 5, || {
        run.watch.history().into_iter().rev().find(|s| s.kubelet_status("db")["state"]["terminated"].is_object())
    });
    for name in ["db", "api", "web"] {
        let end = &ended.kubelet_status(name)["state"]["terminated"];
        // On SIGTERM the test server exits with 0, or with 143 if the handler is not yet installed. Exit code 137 would
        // mean SIGKILL after the grace period. In some runs, the kubelet starts only db.
        let by_term = end["exitCode"] == 0 || end["exitCode"] == 143;
        let never = *end == Value::Null || end["reason"] == "ContainerStatusUnknown";
        assert!(by_term || (name != "db" && never), "{name}: {end}");
    }
}

/// The sidecar must not delay the deletion of a Pod that has started.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn started_pod_is_deleted_in_time() {
    let scene = Scene::shared("deleted-up");
    scene.grant_pod_access();
    let pod = chain("up", "0s").with(json!({"spec": {"terminationGracePeriodSeconds": 30}}));
    let run = scene.create(&pod);
    run.wait_until_up();
    let took = run.delete();
    scene.report(&format!("gone {:.2} s after the deletion", took / 1000.0));
    assert_eq!(run.killed(), "");
}

//! A pod deleted in the middle of its start.

use crate::clock::{eventually, wall_ms};
use crate::cluster::kubectl;
use crate::orders::chain;
use crate::scene::Scene;
use serde_json::{Value, json};

/// A hook that waits must not hold the deletion up: the kubelet does nothing for the pod until it returns.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn deleted_while_a_hook_waits() {
    let scene = Scene::shared("deleted");
    scene.grant_pod_access();
    // The kubelet still starts api and web, and ends them milliseconds later. A first process of a PID namespace that has not
    // installed its handler by then misses its TERM, and the grace period passes: with a shared namespace it is not the first.
    let spec = json!({"terminationGracePeriodSeconds": 30, "shareProcessNamespace": true});
    let pod = chain("deleted", "10m").with(json!({"spec": spec}));
    let run = scene.create(&pod);
    run.watch.wait_until("db's hook waits", 60, |s| s.podgate_state("db") == Some("Started"));
    let begin = wall_ms();
    kubectl(&["-n", &scene.namespace, "delete", "pod", "deleted", "--wait=true"]);
    let took = wall_ms() - begin;
    scene.report(&format!("gone {:.2} s after the delete", took / 1000.0));
    assert!(took < 5000.0, "gone only after {took:.0} ms");

    let ended = eventually("how the containers ended", 5, || {
        run.watch.history().into_iter().rev().find(|s| s.kubelet_status("db")["state"]["terminated"].is_object())
    });
    for name in ["db", "api", "web"] {
        let end = &ended.kubelet_status(name)["state"]["terminated"];
        // TERM ends the test server with 0 (143 before it has installed its handler); 137 would be a KILL after the grace period.
        // One that was to come later may never have started.
        let by_term = end["exitCode"] == 0 || end["exitCode"] == 143;
        let never = *end == Value::Null || end["reason"] == "ContainerStatusUnknown";
        assert!(by_term || (name != "db" && never), "{name}: {end}");
    }
}

/// In no hook, with everything up: the sidecar must not hold it up either.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn deleted_when_up() {
    let scene = Scene::shared("deleted-up");
    scene.grant_pod_access();
    for (name, sidecar) in
        [("native", crate::pod::SidecarPlacement::Native), ("first", crate::pod::SidecarPlacement::FirstContainer)]
    {
        let pod = chain(name, "0s").sidecar(sidecar).with(json!({"spec": {"terminationGracePeriodSeconds": 30}}));
        let run = scene.create(&pod);
        run.wait_until_up();
        let begin = wall_ms();
        kubectl(&["-n", &scene.namespace, "delete", "pod", name, "--wait=true"]);
        let took = wall_ms() - begin;
        scene.report(&format!("{name}: gone {:.2} s after the delete", took / 1000.0));
        assert!(took < 10_000.0, "{name}: gone only after {took:.0} ms");
    }
}

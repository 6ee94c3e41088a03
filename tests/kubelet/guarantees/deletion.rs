//! Tests the deletion of the Pod.

use super::cell::{Cell, Order, rounded_time};
use super::fault_run::{CellSetup, FaultRun};
use crate::clock::{eventually, wall_ms};
use crate::cluster::{kubectl, try_kubectl};
use crate::pod::Pod;

/// Grace period of the Pods plus the kubelet's extra time, in milliseconds.
const GRACE_MS: f64 = 5000.0 + 2000.0;

/// Creates one Pod for each stage of the start, and deletes the Pod at that stage.
pub(super) fn deleted_at_each_stage(setup: &CellSetup<'_>) -> Cell {
    let with_late_api = |name: &str| {
        let [db, api, web] = setup.chain(&[], 8000);
        setup.begin(&Pod::new(name, [db, api.args(&["--ready-on-signal"]), web]))
    };
    let plain = |name: &str| setup.begin(&Pod::new(name, setup.chain(&[], 8000)));
    let (at_once, db_waits, api_waits, up) =
        (plain("at-once"), plain("waiting"), with_late_api("further"), plain("up"));
    let mut gone: Vec<(&str, f64)> = Vec::new();
    let delete = |fault_run: &FaultRun<'_>| {
        kubectl(&["-n", &setup.scene.namespace, "delete", "pod", &fault_run.run.pod, "--wait=false"]);
        wall_ms()
    };
    let wait_until_gone = |fault_run: &FaultRun<'_>, deleted: f64| {
        let pod = &fault_run.run.pod;
        eventually(&format!("{pod} is deleted"), 240, || {
            try_kubectl(&["-n", &setup.scene.namespace, "get", "pod", pod])
                .is_err_and(|e| e.contains("NotFound"))
                .then_some(())
        });
        wall_ms() - deleted
    };

    // Usually the sidecar does not run yet at the time of this deletion.
    let deleted = delete(&at_once);
    gone.push(("before the sidecar is up", wait_until_gone(&at_once, deleted)));

    db_waits.wait_until_db_is_awaited(0);
    let deleted = delete(&db_waits);
    gone.push(("while `db` is not Ready", wait_until_gone(&db_waits, deleted)));

    api_waits.wait_for_event("db", 0, "listening");
    api_waits.make_ready("db");
    api_waits.wait_for_event("api", 0, "listening");
    let deleted = delete(&api_waits);
    gone.push(("while `api` is not Ready", wait_until_gone(&api_waits, deleted)));

    up.wait_until_db_is_awaited(0);
    up.make_ready("db");
    up.wait_until_up();
    let deleted = delete(&up);
    gone.push(("when all is up", wait_until_gone(&up, deleted)));

    for (at, took) in &gone {
        setup.scene.report(&format!("deleted {at}: gone after {:.2} s", took / 1000.0));
        // This limit also holds on a busy machine.
        assert!(setup.mode.is_peer() || *took < 10.0 * GRACE_MS, "deleted {at}: the deletion took {took:.0} ms");
    }
    let fault_runs = [&at_once, &db_waits, &api_waits, &up];
    let early: Vec<String> = fault_runs.into_iter().flat_map(|fault_run| fault_run.early_starts()).collect();
    assert!(setup.expected_order == Order::Lost || early.is_empty(), "order broken: {}", early.join("; "));
    let longest = gone.iter().map(|(_, took)| *took).fold(0.0, f64::max);
    let order = if early.is_empty() { Order::Kept } else { Order::Lost };
    let user_sees = match order {
        Order::Kept => "waiting containers never run".to_owned(),
        _ => "waiting containers start and are terminated at once".to_owned(),
    };
    Cell { order, waited: format!("the Pod is gone in {}", rounded_time(longest)), user_sees }
}

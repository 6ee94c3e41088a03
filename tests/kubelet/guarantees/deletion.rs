//! The pod is deleted.

use super::cell::{Cell, Mode, Order, rounded_time};
use super::fault_run::{CellSetup, FaultRun};
use crate::clock::{eventually, wall_ms};
use crate::cluster::{kubectl, try_kubectl};
use crate::pod::Pod;

/// The pods' terminationGracePeriodSeconds, and what the kubelet adds to it, in milliseconds.
const GRACE_MS: f64 = 5000.0 + 2000.0;
/// What a slow machine may take besides.
const SLACK_MS: f64 = 15_000.0;

/// One pod a stage: it is brought there, and deleted.
pub(super) fn at_each_stage(stage: &CellSetup<'_>) -> Cell {
    let late = |name: &str| {
        let [db, api, web] = stage.chain(&[], 8000);
        stage.begin(&Pod::new(name, [db, api.args(&["--ready-on-signal"]), web]))
    };
    let plain = |name: &str| stage.begin(&Pod::new(name, stage.chain(&[], 8000)));
    let (at_once, waiting, further, up) = (plain("at-once"), plain("waiting"), late("further"), plain("up"));
    let mut gone: Vec<(&str, f64)> = Vec::new();
    let delete = |course: &FaultRun<'_>| {
        kubectl(&["-n", &stage.scene.namespace, "delete", "pod", &course.run.pod, "--wait=false"]);
        wall_ms()
    };
    let is_gone = |course: &FaultRun<'_>, deleted: f64| {
        let pod = &course.run.pod;
        eventually(&format!("{pod} is gone"), 120, || {
            try_kubectl(&["-n", &stage.scene.namespace, "get", "pod", pod])
                .is_err_and(|e| e.contains("NotFound"))
                .then_some(())
        });
        wall_ms() - deleted
    };

    // Before the sidecar is up, as a rule.
    let deleted = delete(&at_once);
    gone.push(("before the sidecar is up", is_gone(&at_once, deleted)));

    waiting.wait_until_db_is_awaited(0);
    let deleted = delete(&waiting);
    gone.push(("while `db` is not Ready", is_gone(&waiting, deleted)));

    further.wait_for_event("db", 0, "listening");
    further.make_ready("db");
    further.wait_for_event("api", 0, "listening");
    let deleted = delete(&further);
    gone.push(("while `api` is not Ready", is_gone(&further, deleted)));

    up.wait_until_db_is_awaited(0);
    up.make_ready("db");
    up.wait_until_up();
    let deleted = delete(&up);
    gone.push(("when all is up", is_gone(&up, deleted)));

    for (at, took) in &gone {
        stage.scene.report(&format!("deleted {at}: gone after {:.2} s", took / 1000.0));
        assert!(*took < GRACE_MS + SLACK_MS, "deleted {at}: gone only after {took:.0} ms");
    }
    let courses = [&at_once, &waiting, &further, &up];
    let early: Vec<String> = courses.into_iter().flat_map(|course| course.early_starts()).collect();
    assert!(stage.mode == Mode::PostStart || early.is_empty(), "order broken: {}", early.join("; "));
    let longest = gone.iter().map(|(_, took)| *took).fold(0.0, f64::max);
    let order = if early.is_empty() { Order::Kept } else { Order::Lost };
    let user_sees = match order {
        Order::Kept => "waiting containers never run".to_owned(),
        _ => "waiting containers start and are terminated at once".to_owned(),
    };
    Cell { order, waited: format!("the Pod is gone in {}", rounded_time(longest)), user_sees }
}

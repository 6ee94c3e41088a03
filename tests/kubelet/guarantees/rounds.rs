//! Everything starts again, with all that the first start left behind lying there.

use super::cell::Cell;
use super::fault_run::CellSetup;
use crate::clock::wall_ms;
use crate::cluster::{minor_version, run_script};
use crate::pod::Pod;
use serde_json::json;

/// The pod is up; `measure_second_start` makes all of it start once more; then `db` is Ready again.
fn measure_second_start(stage: &CellSetup<'_>, pod: &Pod, again: impl FnOnce(&crate::scene::FollowedPod<'_>)) -> Cell {
    let course = stage.begin(pod);
    course.wait_until_db_is_awaited(0);
    course.make_ready("db");
    course.wait_until_up();
    let since = wall_ms();
    again(&course.run);
    course.wait_until_db_is_awaited(1);
    course.settle();
    let words = course.waiter_message();
    course.make_ready("db");
    course.finish(since, &format!("`{words}`"))
}

pub(super) fn sandbox_killed(stage: &CellSetup<'_>) -> Cell {
    let pod = Pod::new("chain", stage.chain(&[], 8000));
    measure_second_start(stage, &pod, |run| _ = run_script(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

pub(super) fn host_network(stage: &CellSetup<'_>) -> Cell {
    let ports = if stage.mode == super::Mode::PostStart { 28_100 } else { 28_200 };
    let pod = Pod::new("chain", stage.chain(&[], ports)).with(json!({"spec": {"hostNetwork": true}}));
    measure_second_start(stage, &pod, |run| _ = run_script(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

/// From Kubernetes 1.36 on.
pub(super) fn restart_all(stage: &CellSetup<'_>) -> Cell {
    if minor_version() < 36 {
        return Cell::not_here();
    }
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}});
    let [db, api, web] = stage.chain(&[], 8000);
    let web = web.args(&["--exit-code", "88"]).with(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}));
    measure_second_start(stage, &Pod::new("chain", [db, api, web]), |run| run.signal("web", "USR1"))
}

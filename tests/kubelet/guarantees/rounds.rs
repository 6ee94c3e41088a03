//! Everything starts again, with all that the first start left behind lying there.

use super::cell::Cell;
use super::course::Stage;
use crate::clock::wall;
use crate::cluster::{cluster, minor};
use crate::pod::Pod;
use serde_json::json;

/// The pod is up; `again` makes all of it start once more; then `db` is Ready again.
fn again(stage: &Stage<'_>, pod: &Pod, again: impl FnOnce(&crate::scene::Run<'_>)) -> Cell {
    let course = stage.begin(pod);
    course.db_is_awaited(0);
    course.go("db");
    course.up();
    let since = wall();
    again(&course.run);
    course.db_is_awaited(1);
    course.settle();
    let words = course.words();
    course.go("db");
    course.finish(since, &format!("`{words}`"))
}

pub(super) fn sandbox_killed(stage: &Stage<'_>) -> Cell {
    let pod = Pod::new("chain", stage.chain(&[], 8000));
    again(stage, &pod, |run| _ = cluster(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

pub(super) fn host_network(stage: &Stage<'_>) -> Cell {
    let ports = if stage.mode == super::Mode::PostStart { 28_100 } else { 28_200 };
    let pod = Pod::new("chain", stage.chain(&[], ports)).with(json!({"spec": {"hostNetwork": true}}));
    again(stage, &pod, |run| _ = cluster(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

/// From Kubernetes 1.36 on.
pub(super) fn restart_all(stage: &Stage<'_>) -> Cell {
    if minor() < 36 {
        return Cell::not_here();
    }
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}});
    let [db, api, web] = stage.chain(&[], 8000);
    let web = web.args(&["--exit-code", "88"]).with(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}));
    again(stage, &Pod::new("chain", [db, api, web]), |run| run.signal("web", "USR1"))
}

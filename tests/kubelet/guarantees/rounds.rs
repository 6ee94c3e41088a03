//! Measures second starts of all containers of a Pod. The volumes still have the files from the first start.

use super::cell::Cell;
use super::fault_run::CellSetup;
use crate::clock::wall_ms;
use crate::cluster::{minor_version, run_script};
use crate::pod::Pod;
use serde_json::json;

/// Starts the Pod, calls `restart` to make all containers start again, makes `db` Ready again, and returns the cell.
fn measure_second_start(
    setup: &CellSetup<'_>,
    pod: &Pod,
    restart: impl FnOnce(&crate::scene::FollowedPod<'_>),
) -> Cell {
    let fault_run = setup.begin(pod);
    fault_run.wait_until_db_is_awaited(0);
    fault_run.make_ready("db");
    fault_run.wait_until_up();
    let since = wall_ms();
    restart(&fault_run.run);
    fault_run.wait_until_db_is_awaited(1);
    fault_run.settle();
    fault_run.finish_with_message(since)
}

pub(super) fn sandbox_killed(setup: &CellSetup<'_>) -> Cell {
    let pod = Pod::new("chain", setup.chain(&[], 8000));
    measure_second_start(setup, &pod, |run| _ = run_script(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

pub(super) fn host_network(setup: &CellSetup<'_>) -> Cell {
    let ports = 28_100 + 50 * setup.mode as u16;
    let pod = Pod::new("chain", setup.chain(&[], ports)).with(json!({"spec": {"hostNetwork": true}}));
    measure_second_start(setup, &pod, |run| _ = run_script(&["kill-sandbox", &run.scene.namespace, &run.pod]))
}

/// Restarts all containers by the action `RestartAllContainers`, which needs Kubernetes 1.36 or later.
pub(super) fn restart_all(setup: &CellSetup<'_>) -> Cell {
    if minor_version() < 36 {
        return Cell::not_here();
    }
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}});
    let [db, api, web] = setup.chain(&[], 8000);
    let web = web.args(&["--exit-code", "88"]).with(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}));
    measure_second_start(setup, &Pod::new("chain", [db, api, web]), |run| run.signal("web", "USR1"))
}

//! Faults of the node: the kubelet, the runtime, the API server, all of it.

use super::cell::{Cell, Mode};
use super::fault_run::{CellSetup, while_db_is_awaited};
use crate::clock::wall_ms;
use crate::cluster::{ApiServerStopped, restart_kubelet, run_script};
use crate::pod::Pod;
use podgate::core::names;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// For seconds after its restart the kubelet calls ready what never was.
const FALSE_READY_PERIOD: Duration = Duration::from_secs(7);

pub(super) fn kubelet_restarted(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |_| restart_kubelet())
}

/// `db` has a probe that runs inside it, which the sidecar can't; the hook or gate does not either.
pub(super) fn kubelet_restarted_when_only_it_can_judge(stage: &CellSetup<'_>) -> Cell {
    let [db, api, web] = stage.chain(&[], 8000);
    let probe = json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}});
    let course = stage.begin(&Pod::new("chain", [db.args(&["--touch", "/tmp/ready"]).probe(probe), api, web]));
    course.wait_until_db_is_awaited(0);
    let since = wall_ms();
    restart_kubelet();
    course.settle_for(FALSE_READY_PERIOD);
    let words = course.waiter_message();
    course.make_ready("db");
    course.finish(since, &format!("`{words}`"))
}

pub(super) fn containerd_restarted(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |_| _ = run_script(&["restart-containerd"]))
}

/// All of it is known by the board, and by what is declared to the sidecar.
pub(super) fn api_away(stage: &CellSetup<'_>) -> Cell {
    let course = stage.begin(&Pod::new("chain", stage.chain(&[], 8000)));
    course.run.wait_for_start("podgate", 1);
    let since = wall_ms();
    let away = ApiServerStopped::stop();
    course.wait_until_db_is_awaited(0);
    course.settle();
    course.make_ready("db");
    let web = course.wait_for_event("web", 0, "ready");
    assert!(since < web.start_time(), "the API server was stopped too late to show anything");
    drop(away);
    course.finish(since, "the annotations are updated once the API server is back")
}

/// As a node does that loses its power: nothing lives on, the memory volumes are empty, the annotations are what they were.
pub(super) fn reboot(stage: &CellSetup<'_>) -> Cell {
    let ready = stage.names().map(|name| (format!("{}{name}", names::STATUS_PREFIX), json!("Ready")));
    let mut stale: serde_json::Map<String, serde_json::Value> = ready.collect();
    for (key, value) in [
        (names::SANDBOX_ID, "00c0ffee-4097-1a0c5f3b"),
        (names::SANDBOX_EPOCH, "before"),
        (names::SANDBOX_PHASE, "started"),
        (names::SANDBOX_REVISION, "9007199254740991"),
    ] {
        stale.insert(key.to_owned(), value.into());
    }
    let pod = Pod::new("chain", stage.chain(&[], 8000)).with(json!({"metadata": {"annotations": stale}}));
    let course = stage.begin(&pod);
    course.wait_until_db_is_awaited(0);
    // The same annotations, from one boot before, on a pod of which nothing runs any more.
    let since = wall_ms();
    let board = PathBuf::from(format!("/proc/{}/root", course.run.pid("podgate").expect("the sidecar runs")));
    let volumes = [names::BOARD_DIR, names::SELF_DIR].map(|folder| board.join(&folder[1..]));
    run_script(&["stop-kubelet", "--kill"]);
    let volumes = volumes.map(|volume| fs::File::open(&volume).expect("the volume"));
    for container in ["podgate", "db", "api", "web"] {
        if course.run.pid(container).is_some() {
            course.run.signal(container, "KILL");
        }
    }
    run_script(&["kill-sandbox", &stage.scene.namespace, "chain"]);
    for volume in volumes {
        clear_folder(&volume);
    }
    run_script(&["restart-containerd", "--kill"]);
    run_script(&["start-kubelet"]);
    course.wait_until_db_is_awaited(1);
    course.settle();
    let words = match stage.mode {
        Mode::PostStart => String::new(),
        Mode::Entrypoint => format!("`{}`", course.waiter_message()),
    };
    course.make_ready("db");
    course.finish(since, &words)
}

/// Takes away what lies in a folder that is known by its descriptor alone.
fn clear_folder(folder: &fs::File) {
    use std::os::fd::AsRawFd;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    for entry in fs::read_dir(&path).expect("the volume").flatten() {
        let found = entry.path();
        let gone = if found.is_dir() { fs::remove_dir_all(&found) } else { fs::remove_file(&found) };
        gone.unwrap_or_else(|error| panic!("{}: {error}", found.display()));
    }
}

//! Injects faults of the kubelet, the container runtime, the API server, and the whole node.

use super::cell::{Cell, Mode};
use super::fault_run::{CellSetup, while_db_is_awaited};
use crate::clock::wall_ms;
use crate::cluster::{ApiServerStopped, restart_kubelet, run_script};
use crate::pod::{Pod, SHARED_DIR};
use podgate::core::names;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Period after a kubelet restart in which the kubelet may wrongly report containers as ready.
const FALSE_READY_PERIOD: Duration = Duration::from_secs(7);

pub(super) fn kubelet_restarted(setup: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(setup, &[], |_| restart_kubelet())
}

/// Restarts the kubelet in a Pod whose `db` has an exec probe. Only the kubelet runs that probe: the sidecar cannot run
/// commands in `db`, and the hook or gate has no check with the same command.
pub(super) fn kubelet_restarted_with_exec_probe(setup: &CellSetup<'_>) -> Cell {
    let [db, api, web] = setup.chain(&[], 8000);
    // Tekton's wrapper waits for a file that `db` already creates.
    let (db, file) = match setup.mode {
        Mode::Tekton => (db, format!("{SHARED_DIR}/db")),
        _ => (db.args(&["--touch", "/tmp/ready"]), "/tmp/ready".to_owned()),
    };
    let probe = json!({"exec": {"command": ["/testserver", "check", file]}});
    let fault_run = setup.begin(&Pod::new("chain", [db.probe(probe), api, web]));
    fault_run.wait_until_db_is_awaited(0);
    let since = wall_ms();
    restart_kubelet();
    fault_run.settle_for(FALSE_READY_PERIOD);
    fault_run.finish_with_message(since)
}

pub(super) fn containerd_restarted(setup: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(setup, &[], |_| _ = run_script(&["restart-containerd"]))
}

/// Stops the API server during the start. The board and the list in `--containers` must be enough to start the Pod in
/// order.
pub(super) fn api_away(setup: &CellSetup<'_>) -> Cell {
    let fault_run = setup.begin(&Pod::new("chain", setup.chain(&[], 8000)));
    let has_sidecar = setup.mode.has_sidecar();
    fault_run.run.wait_for_start(if has_sidecar { "podgate" } else { "db" }, 1);
    let since = wall_ms();
    let away = ApiServerStopped::stop();
    match setup.mode {
        // Without the API server, the kubelet cannot report that it holds a container.
        Mode::Hold | Mode::Kruise => _ = fault_run.wait_for_event("db", 0, "listening"),
        _ => fault_run.wait_until_db_is_awaited(0),
    }
    fault_run.settle();
    fault_run.make_ready("db");
    if setup.mode == Mode::Kruise {
        fault_run.settle_for(Duration::from_secs(20));
        let has_started = !fault_run.logs.of_container("api").is_empty();
        drop(away);
        let mut cell = fault_run.finish(since, "");
        assert!(!has_started, "Kruise's controller starts a container without the API server: {cell}");
        cell.waited = "only when the API server is back".to_owned();
        return cell;
    }
    let web = fault_run.wait_for_event("web", 0, "ready");
    assert!(since < web.start_time(), "the API server was stopped too late for this test");
    drop(away);
    let annotations = "the annotations are updated once the API server is back";
    fault_run.finish(since, if has_sidecar { annotations } else { "" })
}

/// Simulates a power loss of the node: all processes die, the memory volumes are empty, and the annotations remain.
pub(super) fn reboot(setup: &CellSetup<'_>) -> Cell {
    let ready = setup.names().map(|name| (format!("{}{name}", names::STATUS_KEY_PREFIX), json!("Ready")));
    let mut stale: serde_json::Map<String, serde_json::Value> = ready.collect();
    for (key, value) in [
        (names::SANDBOX_ID_KEY, "00c0ffee-4097-1a0c5f3b"),
        (names::EPOCH_KEY, "before"),
        (names::STAGE_KEY, "started"),
        (names::REVISION_KEY, "9007199254740991"),
    ] {
        stale.insert(key.to_owned(), value.into());
    }
    let pod = Pod::new("chain", setup.chain(&[], 8000)).with(json!({"metadata": {"annotations": stale}}));
    let fault_run = setup.begin(&pod);
    fault_run.wait_until_db_is_awaited(0);
    // The Pod now has the annotations of the previous boot, but no processes.
    let since = wall_ms();
    // Memory volumes are empty after a reboot. The volume of a Pod without podgate is on the disk.
    let directories: &[&str] = match setup.mode {
        Mode::Hold => &[names::BOARD_DIR, names::SELF_DIR, names::HOLD_DIR],
        Mode::Entrypoint | Mode::PostStart => &[names::BOARD_DIR, names::SELF_DIR],
        _ => &[],
    };
    let root = fault_run.run.pid(if setup.mode.has_sidecar() { "podgate" } else { "db" }).expect("a container runs");
    let root = PathBuf::from(format!("/proc/{root}/root"));
    let volumes: Vec<PathBuf> = directories.iter().map(|directory| root.join(&directory[1..])).collect();
    run_script(&["stop-kubelet", "--kill"]);
    let open = |volume: &PathBuf| fs::File::open(volume).expect("the volume");
    let volumes: Vec<fs::File> = volumes.iter().map(open).collect();
    for container in ["podgate", "db", "api", "web"] {
        if fault_run.run.pid(container).is_some() {
            fault_run.run.signal(container, "KILL");
        }
    }
    run_script(&["kill-sandbox", &setup.scene.namespace, "chain"]);
    for volume in volumes {
        clear_directory(&volume);
    }
    run_script(&["restart-containerd", "--kill"]);
    run_script(&["start-kubelet"]);
    fault_run.wait_until_db_is_awaited(1);
    fault_run.settle();
    let message = match fault_run.waiter_message() {
        message if setup.mode == Mode::PostStart || message.is_empty() => String::new(),
        message => format!("`{message}`"),
    };
    fault_run.make_ready("db");
    fault_run.finish(since, &message)
}

/// Deletes the content of the directory to which the descriptor `directory` refers.
fn clear_directory(directory: &fs::File) {
    use std::os::fd::AsRawFd;
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    for entry in fs::read_dir(&path).expect("the volume").flatten() {
        let path = entry.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

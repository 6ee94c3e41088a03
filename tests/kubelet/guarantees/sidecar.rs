//! Injects faults of the sidecar and of podgate's volumes.

use super::cell::Cell;
use super::fault_run::{CellSetup, FaultRun, while_db_is_awaited};
use crate::clock::{eventually, wall_ms};
use crate::pod::{Pod, server};
use podgate::core::names;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kills the sidecar. While a hook waits, the kubelet does not restart the sidecar, so the hook runs its fallback
/// check.
pub(super) fn killed(setup: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(setup, &[], |fault_run| fault_run.run.signal("podgate", "KILL"))
}

/// Starts another process in the sidecar's cgroup. That process uses up the memory limit, so that the kernel kills the
/// sidecar.
pub(super) fn out_of_memory(setup: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(setup, &[], |fault_run| {
        let sidecar = fault_run.run.pid("podgate").expect("the sidecar runs");
        let procs = memory_cgroup(sidecar).join("cgroup.procs");
        let filler = PathBuf::from(format!("/dev/shm/podgate-{}", setup.scene.namespace));
        // With a score of 1000, the kernel kills the sidecar and not the other process.
        fs::write(format!("/proc/{sidecar}/oom_score_adj"), "1000").expect("the sidecar's OOM score can be set");
        let script = r#"echo $$ >"$1" && exec head -c 256M /dev/zero >"$2""#;
        let ended = Command::new("sh").args(["-c", script, "sh"]).arg(&procs).arg(&filler).output();
        let _ = fs::remove_file(&filler);
        let ended = ended.expect("a shell");
        eventually(&format!("the sidecar is killed ({ended:?})"), 10, || (!is_alive(sidecar)).then_some(()));
    })
}

fn is_alive(pid: u32) -> bool {
    // A dead process stays as a zombie until its parent waits for it.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns the directory of the memory cgroup of process `pid`, in cgroup v1 or v2.
fn memory_cgroup(pid: u32) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the cgroups of the process");
    let at = |controllers: &str| {
        let mut lines = text.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        lines.find(|fields| fields[1] == controllers).map(|fields| fields[2].trim_start_matches('/').to_owned())
    };
    match (at("memory"), at("")) {
        (Some(path), _) => Path::new("/sys/fs/cgroup/memory").join(path),
        (None, Some(path)) => Path::new("/sys/fs/cgroup").join(path),
        (None, None) => panic!("process {pid} is in no memory cgroup: {text}"),
    }
}

/// Fills two volumes. The test fills the board's volume from the node, because no container can write to the board. The
/// container `mallory` fills the volume of the reports.
pub(super) fn board_full(setup: &CellSetup<'_>) -> Cell {
    let [db, api, web] = setup.chain(&[], 8000);
    let mallory = server("mallory").running_as_root().args(&["--hostile", "fill"]);
    let fault_run = setup.begin(&Pod::new("chain", [mallory, db, api, web]));
    fault_run.wait_until_db_is_awaited(0);
    fault_run.wait_for_event("mallory", 0, "hostile fill");
    let board = format!("/proc/{}/root{}", fault_run.run.pid("podgate").expect("the sidecar runs"), names::BOARD_DIR);
    let filler = PathBuf::from(board).join("filler");
    let error = fill_file(&filler).expect_err("the volume must have a size limit");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    fault_run.settle();
    let message = fault_run.waiter_message();
    let since = wall_ms();
    fault_run.make_ready("db");
    let is_logged = eventually("the rest starts, or the sidecar logs why not", 60, || {
        if fault_run.run.sidecar_log().contains("cannot write the board") {
            return Some(true);
        }
        fault_run.logs.of_container("web").iter().any(|life| life.time_of("start").is_some()).then_some(false)
    });
    fs::remove_file(&filler).expect("the filler exists");
    let freed = wall_ms();
    let mut cell = fault_run.finish(since, &format!("`{message}`"));
    if is_logged {
        // The sidecar cannot release the waiters until the board has free space again.
        cell.waited = format!("{} after the board has room again", fault_run.last_start_after(freed));
        cell.user_sees.push_str("; the sidecar's log: `cannot write the board, so gates stay closed; retrying`");
    }
    cell
}

/// Writes to `file` until the volume is full. Returns the error of the last write.
pub(crate) fn fill_file(file: &Path) -> io::Result<()> {
    let mut file = File::create(file)?;
    for length in [1 << 16, 1 << 10, 1] {
        let mut outcome = Ok(());
        while outcome.is_ok() {
            outcome = file.write_all(&vec![b'x'; length]);
        }
        if length == 1 {
            return outcome;
        }
    }
    Ok(())
}

/// Runs all attacks that a container can make through the volumes as root.
pub(super) fn tampered(setup: &CellSetup<'_>) -> Cell {
    let [db, api, web] = setup.chain(&[], 8000);
    let mallory =
        server("mallory").running_as_root().args(&["--hostile", "bell", "--hostile", "links", "--hostile", "lies"]);
    let fault_run = setup.begin(&Pod::new("chain", [mallory, db, api, web]));
    fault_run.wait_until_db_is_awaited(0);
    for what in ["hostile bell", "hostile links"] {
        fault_run.wait_for_event("mallory", 0, what);
    }
    let since = wall_ms();
    fault_run.settle();
    fault_run.finish_with_message(since)
}

impl FaultRun<'_> {
    /// Returns the time from `moment` to the start of the last container, as rounded text.
    fn last_start_after(&self, moment: f64) -> String {
        let last = self.wait_for_event("web", 0, "start").start_time();
        super::cell::rounded_time((last - moment).max(0.0))
    }
}

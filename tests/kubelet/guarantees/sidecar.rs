//! Faults of the sidecar, and of what it writes on.

use super::cell::Cell;
use super::fault_run::{CellSetup, FaultRun, while_db_is_awaited};
use crate::clock::{eventually, wall_ms};
use crate::pod::{Pod, server};
use podgate::core::names;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Under a hook the kubelet does not start it again before the hook has returned, which judges for itself meanwhile.
pub(super) fn killed(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |course| course.run.signal("podgate", "KILL"))
}

/// The kernel kills it: something else in its cgroup takes all the memory that it may have.
pub(super) fn out_of_memory(stage: &CellSetup<'_>) -> Cell {
    while_db_is_awaited(stage, &[], |course| {
        let sidecar = course.run.pid("podgate").expect("the sidecar runs");
        let procs = memory_cgroup(sidecar).join("cgroup.procs");
        let filler = PathBuf::from(format!("/dev/shm/podgate-{}", stage.scene.namespace));
        // The kernel takes the sidecar first, then, if that does not help, the other.
        fs::write(format!("/proc/{sidecar}/oom_score_adj"), "1000").expect("its score");
        let script = r#"echo $$ >"$1" && exec head -c 256M /dev/zero >"$2""#;
        let ended = Command::new("sh").args(["-c", script, "sh"]).arg(&procs).arg(&filler).output();
        let _ = fs::remove_file(&filler);
        let ended = ended.expect("a shell");
        eventually(&format!("the sidecar is killed ({ended:?})"), 10, || (!is_alive(sidecar)).then_some(()));
    })
}

fn is_alive(pid: u32) -> bool {
    // Dead ones stay until they are waited for.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Where the memory of process `pid` is accounted, in either version of cgroups.
fn memory_cgroup(pid: u32) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its cgroups");
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

/// Not to be done by a container: it fills the volume with the board from the node, and its own folder's volume from inside.
pub(super) fn board_full(stage: &CellSetup<'_>) -> Cell {
    let [db, api, web] = stage.chain(&[], 8000);
    let mallory = server("mallory").running_as_root().args(&["--hostile", "fill"]);
    let course = stage.begin(&Pod::new("chain", [mallory, db, api, web]));
    course.wait_until_db_is_awaited(0);
    course.wait_for_event("mallory", 0, "hostile fill");
    let board = format!("/proc/{}/root{}", course.run.pid("podgate").expect("the sidecar runs"), names::BOARD_DIR);
    let filler = PathBuf::from(board).join("filler");
    let error = fill_file(&filler).expect_err("a volume has its end");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    course.settle();
    let words = course.waiter_message();
    let since = wall_ms();
    course.make_ready("db");
    let says = eventually("the rest starts, or the sidecar says why not", 60, || {
        if course.run.sidecar_log().contains("can't write the board") {
            return Some(true);
        }
        course.logs.of_container("web").iter().any(|life| life.time_of("start").is_some()).then_some(false)
    });
    fs::remove_file(&filler).expect("it is there");
    let room = wall_ms();
    let mut cell = course.finish(since, &format!("`{words}`"));
    if says {
        // Nothing can be told to anybody before there is room again.
        cell.waited = format!("{} after the board has room again", course.last_start_after(room));
        cell.user_sees.push_str("; the sidecar's log: `can't write the board; retrying`");
    }
    cell
}

/// Writes until nothing more goes in.
fn fill_file(file: &Path) -> io::Result<()> {
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

/// A container that runs as root does all the harm that the volumes let it do.
pub(super) fn tampered(stage: &CellSetup<'_>) -> Cell {
    let [db, api, web] = stage.chain(&[], 8000);
    let mallory =
        server("mallory").running_as_root().args(&["--hostile", "bell", "--hostile", "links", "--hostile", "lies"]);
    let course = stage.begin(&Pod::new("chain", [mallory, db, api, web]));
    course.wait_until_db_is_awaited(0);
    for what in ["hostile bell", "hostile links"] {
        course.wait_for_event("mallory", 0, what);
    }
    let since = wall_ms();
    course.settle();
    let words = course.waiter_message();
    course.make_ready("db");
    course.finish(since, &format!("`{words}`"))
}

impl FaultRun<'_> {
    /// How long after `moment` the last container started.
    fn last_start_after(&self, moment: f64) -> String {
        let last = self.wait_for_event("web", 0, "start").start_time();
        super::cell::rounded_time((last - moment).max(0.0))
    }
}

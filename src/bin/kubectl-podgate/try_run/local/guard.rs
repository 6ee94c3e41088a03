//! The scratch folder of one run, and the two processes that clean up: no process stays behind, even after SIGKILL.
//!
//! The outer process owns the folder. It starts the inner process, which runs the Pod. Both are subreapers: a process of
//! the Pod that loses its parent becomes their child, even if it has changed its environment, group or session. The inner
//! process kills its children and removes the folder before it prints the verdict, or when the outer process has ended.
//! The outer process does the same when the inner process has ended.

use super::supervisor::exit_code;
use crate::runtime;
use podgate::core::text::error_chain;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper, setpgid, wait};
use std::fs::{Permissions, create_dir, read, read_dir};
use std::io::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tempfile::TempDir;

/// Folders for the board, the containers' reports and the downward API.
pub(super) const FOLDERS: [&str; 3] = ["board", "self", "info"];
/// Number of rounds in which processes are killed. A round takes at least [`PAUSE`].
const ROUNDS: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Runs the inner process, and cleans up after it. Returns its exit code.
pub(super) fn run_outer(program: &Path) -> Result<ExitCode, String> {
    let folder = create_folder()?;
    // A shell that has called `exec` leaves its children to this process.
    let inherited = children();
    let _ = set_child_subreaper(Some(getpid()));
    let mut inner = Command::new(program);
    let pid = std::process::id().to_string();
    inner.args(["try", "--inner", &pid]).arg(folder.path()).args(std::env::args_os().skip(2));
    let start_error = |error| format!("can't start {}: {}", program.display(), error_chain(&error));
    let mut inner = inner.spawn().map_err(start_error)?;
    let pid = Pid::from_child(&inner);
    on_interrupt(move || kill_process(pid, Signal::INT).is_ok());
    let status = inner.wait();
    kill_children(&inherited);
    status.map(|status| ExitCode::from(exit_code(status))).map_err(start_error)
}

/// Calls `act` at each Ctrl-C until it returns false.
pub(super) fn on_interrupt(act: impl Fn() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        runtime::block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() && act() {}
            Ok(ExitCode::SUCCESS)
        })
    });
}

/// Ends this inner process, and cleans up, when the process `outer` has ended.
pub(super) fn end_with(outer: &str, folder: &Path) {
    let _ = set_child_subreaper(Some(getpid()));
    // Neither Ctrl-C nor a SIGKILL for the group of the outer process reaches this one.
    let _ = setpgid(None, None);
    let (outer, folder) = (outer.parse().ok().and_then(Pid::from_raw), folder.to_owned());
    #[allow(clippy::disallowed_methods, reason = "only exit ends the process from a thread")]
    std::thread::spawn(move || {
        while getppid() == outer {
            std::thread::sleep(PAUSE);
        }
        clean_up(&folder);
        std::process::exit(1)
    });
}

/// Kills all children of this inner process, and removes the scratch folder.
pub(super) fn clean_up(folder: &Path) {
    kill_children(&[]);
    let _ = std::fs::remove_dir_all(folder);
}

/// Creates the scratch folder. It is removed on drop.
fn create_folder() -> Result<TempDir, String> {
    let parent = std::env::temp_dir();
    let create = || {
        // Command lines and the descriptions of stand-ins contain the path as text.
        parent.to_str().ok_or_else(|| Error::other("the path is not UTF-8"))?;
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("podgate-try-").permissions(private).tempdir()?;
        FOLDERS.iter().try_for_each(|name| create_dir(folder.path().join(name)))?;
        Ok(folder)
    };
    create().map_err(|error: Error| {
        format!("can't create a folder in {}: {}; set TMPDIR to another folder", parent.display(), error_chain(&error))
    })
}

/// Kills all children except `spared`. Their own children then become children of this process, and are killed too.
fn kill_children(spared: &[Pid]) {
    for _ in 0..ROUNDS {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let mut left = children();
        left.retain(|pid| !spared.contains(pid));
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(|pid| _ = kill_process(pid, Signal::KILL));
        std::thread::sleep(PAUSE);
    }
}

fn children() -> Vec<Pid> {
    let parent = format!("\nPPid:\t{}\n", std::process::id());
    let is_child = |status: &[u8]| String::from_utf8_lossy(status).contains(&parent);
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    let own = processes.filter(|entry| read(entry.path().join("status")).is_ok_and(|status| is_child(&status)));
    own.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

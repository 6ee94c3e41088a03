//! The scratch folder of one run, and the process that cleans up after the run, even after SIGKILL.
//!
//! The guard reads a pipe that only `try` holds open. When `try` has gone, the guard kills every process of the run, and
//! removes the folder. A normal run ends in the same way. The guard recognizes a process by the run's environment variable.
//! The sidecar's environment is readable only for root, so the guard recognizes the sidecar by its `--board`.

use super::programs::Programs;
use super::stand_in::Role;
use podgate::core::text::error_chain;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Environment variable of every process of a run: the path of the scratch folder.
pub(super) const VARIABLE: &str = "PODGATE_TRY";
/// Folders for the board, the containers' reports and the downward API.
pub(super) const FOLDERS: [&str; 3] = ["board", "self", "info"];
/// Number of rounds in which the guard kills processes. A round takes at least [`PAUSE`].
const ROUNDS: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// Scratch folder of one run, with its guard.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) folder: PathBuf,
    guard: Child,
}

impl Scratch {
    /// Creates the folder and starts the guard.
    pub(super) fn create(programs: &Programs) -> Result<Scratch, String> {
        let parent = std::env::temp_dir();
        let name = |number: u32| parent.join(format!("podgate-try-{}-{number}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        let builder = builder.mode(0o700);
        // Another program may own a folder of this name.
        let folder = (0..100).map(name).find(|path| builder.create(path).is_ok());
        let folder = folder.filter(|path| FOLDERS.iter().all(|name| builder.create(path.join(name)).is_ok()));
        let folder = folder.ok_or_else(|| {
            format!("can't create a folder in {}; set TMPDIR to a folder that you can write to", parent.display())
        })?;
        let role = json!(Role { guard: Some(folder.clone()), ..Role::default() }).to_string();
        let guard = Command::new(&programs.own)
            .args(["stand-in", &role])
            .env_remove(VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Signals of the terminal do not reach this process group.
            .process_group(0)
            .spawn();
        let guard = guard.map_err(|error| {
            let _ = std::fs::remove_dir_all(&folder);
            format!("can't start {}: {}", programs.own.display(), error_chain(&error))
        })?;
        Ok(Scratch { folder, guard })
    }
}

impl Drop for Scratch {
    /// Kills the remaining processes of the run and removes the folder.
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Runs as the guard of `folder`.
pub(super) fn run(folder: &Path) -> ExitCode {
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    (0..ROUNDS).take_while(|_| kill_marked(folder) > 0).for_each(|_| std::thread::sleep(PAUSE));
    let _ = std::fs::remove_dir_all(folder);
    ExitCode::SUCCESS
}

/// Kills all processes that belong to `folder`. Returns the number of these processes.
fn kill_marked(folder: &Path) -> usize {
    let mark = [VARIABLE.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    let board = [b"--board\0", folder.join(FOLDERS[0]).as_os_str().as_bytes(), b"\0"].concat();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| {
        // Open the handle before the check, so that the signal can't reach another process with the same pid.
        let handle = pidfd_open(*pid, PidfdFlags::empty());
        let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
        let is_marked = read("environ").split(|byte| *byte == 0).any(|variable| variable == mark);
        (is_marked || read("cmdline").windows(board.len()).any(|words| words == board))
            && handle.is_ok_and(|handle| pidfd_send_signal(handle, Signal::KILL).is_ok())
    })
    .count()
}

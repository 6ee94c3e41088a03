//! Processes: an identity that is safe against pid reuse, a watch for the end of a child, exit codes, and random ids.

use crate::core::report::Process;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, waitid};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Interval between two polls of a child process without a pidfd.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Detects the end of a child process without reaping the child.
pub struct ChildWatch {
    /// The child's pidfd. `None` if `pidfd_open` fails: Linux is older than 5.3, or a seccomp profile denies the call.
    pidfd: Option<OwnedFd>,
}

impl ChildWatch {
    /// Creates a watch over `child`.
    pub fn new(child: &Child) -> ChildWatch {
        ChildWatch { pidfd: pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok() }
    }

    /// Returns a descriptor that becomes readable when the child has ended; `None` without a pidfd.
    pub fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.pidfd.as_ref().map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
    }

    /// Returns the time to wait before the next poll: `limit` with a pidfd, otherwise at most `CHILD_POLL_INTERVAL`.
    pub fn poll_interval(&self, limit: Duration) -> Duration {
        if self.pidfd.is_some() { limit } else { limit.min(CHILD_POLL_INTERVAL) }
    }
}

/// Returns the status of a child process that has ended. Do not call this after the child was reaped.
pub fn child_end(child: Pid) -> Option<WaitIdStatus> {
    waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT).ok()?
}

/// Returns true if `process` catches, ignores or blocks `signal`, so that the signal's default action does not apply.
/// Returns false if `/proc` cannot be read.
pub fn overrides_default_action(process: Pid, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let masks = status.lines().filter_map(|line| line.split_once(":\t"));
    let mut masks = masks.filter(|(name, _)| ["SigBlk", "SigIgn", "SigCgt"].contains(name));
    masks.any(|(_, mask)| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1))
}

/// Returns the exit code of a process, or 128 + N if signal N ended the process, as in a shell.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Returns a random id of `bytes` bytes, in hexadecimal digits.
pub fn random_id(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the identity of the process `pid` in this PID namespace, or `None` if `/proc` cannot be read.
pub fn identify(pid: u32) -> Option<Process> {
    Some(Process { pid, start_ticks: start_ticks(pid)? })
}

/// Returns the time since the node's boot, including the time in suspend. All containers of a node share this clock.
pub fn time_since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Returns the time since `process` started.
pub fn age(process: Process) -> Duration {
    /// Milliseconds per clock tick. `USER_HZ` is 100 on all architectures that podgate supports.
    const TICK: u64 = 10;
    time_since_boot().saturating_sub(Duration::from_millis(process.start_ticks.saturating_mul(TICK)))
}

/// Returns true if `process` is alive, even if it now runs another program (`execve`).
pub fn is_alive(process: Process) -> bool {
    start_ticks(process.pid) == Some(process.start_ticks)
}

/// Returns the start time in clock ticks, field 22 of `/proc/PID/stat` (proc(5)). Returns `None` for a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may contain any character. The third field follows the last
    // parenthesis.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!["Z", "X"].contains(&state)).then_some(start)
}

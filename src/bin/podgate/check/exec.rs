//! Child processes of checks: the command of `exec:["COMMAND","ARG"]`, and `podgate check --direct` for each check that
//! may block. When a child process ends, podgate also ends the processes that the child has started.

use crate::clock::now;
use podgate::core::argv::Argv;
use podgate::edge::process::{ChildWatch, has_child_ended};
use podgate::edge::sys::die_with_parent;
use rustix::event::{PollFd, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of attempts, one per millisecond, to reap killed processes. SIGKILL does not end a process that waits
/// for a dead mount. The limit is a count, not a time: on a busy node, this process gets as little CPU time as the
/// killed processes.
const REAP_ATTEMPTS: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildScope {
    /// During a check, all new children belong to the check. Podgate kills those that the check leaves behind.
    ChecksOnly,
    /// New children can also be other processes, because podgate is process 1 or the parent of the command. Podgate
    /// cannot distinguish the orphans of other processes from those of a check.
    WithOthers,
}

#[derive(Debug)]
pub(super) struct RunningCheck {
    child: Child,
    child_scope: ChildScope,
    /// True for a `podgate check` process, which kills the orphans of its command itself.
    is_helper: bool,
    watch: ChildWatch,
    pub(super) deadline: Instant,
    /// Time of the next poll. If the command ends earlier, the caller polls earlier.
    pub(super) next_poll: Instant,
    is_group_killed: bool,
    /// Exit status, if the caller has reaped the process.
    status: Option<ExitStatus>,
    /// Children that existed before the command started.
    earlier_children: Vec<Pid>,
}

fn all_children() -> Vec<Pid> {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
}

impl RunningCheck {
    /// Starts the command with `/dev/null` as input and output, or with this process's output if `shows_output`.
    /// Captures the error message of a `podgate check` process whose output is not shown.
    pub(super) fn start(
        argv: &Argv,
        deadline: Instant,
        children: ChildScope,
        shows_output: bool,
    ) -> Result<RunningCheck, String> {
        let Some((program, arguments)) = argv.as_slice().split_first() else { return Err("no command".to_owned()) };
        // Adopt orphans, so that podgate can kill them with the command.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        // Remember the hook's other children, such as the tether process, so that podgate does not kill them.
        let earlier_children = all_children();
        let is_helper = program == crate::OWN_PROGRAM;
        let output = || if shows_output { Stdio::inherit() } else { Stdio::null() };
        let stderr = if is_helper && !shows_output { Stdio::piped() } else { output() };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output()).stderr(stderr).process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "command not found".to_owned(),
            _ => error.to_string(),
        })?;
        let (at, watch) = (now(), ChildWatch::new(&child));
        Ok(RunningCheck {
            next_poll: at + watch.poll_interval(deadline.saturating_duration_since(at)),
            watch,
            child,
            child_scope: children,
            is_helper,
            deadline,
            is_group_killed: false,
            status: None,
            earlier_children,
        })
    }

    /// Stores `status` if `pid` is the process of this command.
    pub(super) fn on_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if pid == Pid::from_child(&self.child) {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }

    /// Returns the outcome, or `None` while the command runs within its time limit.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Result<(), String>> {
        let ended = self.status.is_some() || has_child_ended(Pid::from_child(&self.child));
        if !ended && now < self.deadline {
            self.next_poll = now + self.watch.poll_interval(self.deadline.saturating_duration_since(now));
            return None;
        }
        Some(match self.kill_and_reap(self.child_scope == ChildScope::ChecksOnly && !(ended && self.is_helper)) {
            _ if !ended => Err("timed out".to_owned()),
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(match (status.code(), status.signal()) {
                (Some(code), _) => self.read_message().unwrap_or_else(|| format!("exited with {code}")),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => "ended".to_owned(),
            }),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Returns true if the process still runs. SIGKILL does not end a process that waits for a dead mount.
    pub(super) fn is_running(&mut self) -> bool {
        self.status.is_none() && matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.watch.poll_fd()
    }

    /// Returns the reason from the error message of the `podgate check` process: the part after the last colon.
    fn read_message(&mut self) -> Option<String> {
        let mut message = String::new();
        self.child.stderr.take()?.read_to_string(&mut message).ok()?;
        let reason = message.trim_end().rsplit(": ").next()?;
        (!reason.is_empty() && !reason.ends_with('…')).then(|| reason.to_owned())
    }

    /// Kills the command's process group and, if `with_orphans`, the orphans. Returns the command's exit status.
    fn kill_and_reap(&mut self, with_orphans: bool) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Kill the group before reaping the command. After the reaping, the group's id may be reused.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_group_killed = true;
        let mut attempts = REAP_ATTEMPTS;
        let status = reap(&mut attempts, || self.child.try_wait());
        if !with_orphans {
            return status;
        }
        // Killing a process may create new orphans, so repeat this step.
        for _ in 0..16 {
            let left: Vec<Pid> =
                all_children().into_iter().filter(|pid| !self.earlier_children.contains(pid)).collect();
            if left.is_empty() {
                break;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
                let _ = reap(&mut attempts, || Ok(waitpid(Some(pid), WaitOptions::NOHANG)?));
            }
        }
        status
    }
}

/// Repeats `try_reap` until the call returns a status. Fails when no `attempts` are left.
fn reap<T>(attempts: &mut u32, mut try_reap: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    loop {
        match try_reap()? {
            Some(status) => return Ok(status),
            None if *attempts == 0 => return Err(io::ErrorKind::TimedOut.into()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        *attempts -= 1;
    }
}

impl Drop for RunningCheck {
    fn drop(&mut self) {
        if !self.is_group_killed {
            let _ = self.kill_and_reap(self.child_scope == ChildScope::ChecksOnly);
        }
    }
}

/// Runs a command to its end, at most for `limit`. The error is a short description of the result.
pub(crate) fn run_to_end(argv: &Argv, limit: Duration, children: ChildScope, shows_output: bool) -> Result<(), String> {
    let mut running = RunningCheck::start(argv, now() + limit, children, shows_output)?;
    loop {
        if let Some(outcome) = running.poll(now()) {
            return outcome;
        }
        let pause = running.next_poll.saturating_duration_since(now());
        let _ = poll(&mut running.poll_fd().into_iter().collect::<Vec<_>>(), Timespec::try_from(pause).ok().as_ref());
    }
}

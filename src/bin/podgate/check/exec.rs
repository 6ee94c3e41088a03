//! Child processes of checks: the command of `exec:["COMMAND","ARG"]`, and `podgate check --direct` for each check that
//! may block. As with the kubelet's exec probes, the processes that a command has started keep running: at the time
//! limit, containerd kills only the command (`execInternal` in its internal/cri/server/container_execsync.go).

use crate::clock::now;
use podgate::core::argv::Argv;
use podgate::edge::process::{ChildWatch, child_end};
use podgate::edge::sys::die_with_parent;
use rustix::event::{PollFd, Timespec, poll};
use rustix::process::{Pid, WaitStatus};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of attempts, one per millisecond, to reap a killed command. SIGKILL does not end a process that waits
/// for a dead mount. The limit is a count, not a time: on a busy node, this process gets as little CPU time as the
/// killed command.
const REAP_ATTEMPTS: u32 = 100;

pub(super) struct RunningCheck {
    child: Child,
    watch: ChildWatch,
    pub(super) deadline: Instant,
    /// Time of the next poll. If the command ends earlier, the caller polls earlier.
    pub(super) next_poll: Instant,
    is_killed: bool,
    /// Exit status, if the caller has reaped the process.
    status: Option<ExitStatus>,
}

impl RunningCheck {
    /// Starts the command with `/dev/null` as input and output, or with this process's output if `shows_output`.
    /// Captures the error message of a `podgate check` process whose output is not shown.
    pub(super) fn start(argv: &Argv, deadline: Instant, shows_output: bool) -> Result<RunningCheck, String> {
        let Some((program, arguments)) = argv.as_slice().split_first() else { return Err("no command".into()) };
        let output = || if shows_output { Stdio::inherit() } else { Stdio::null() };
        let stderr = if program == crate::OWN_PROGRAM && !shows_output { Stdio::piped() } else { output() };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output()).stderr(stderr).process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "command not found".to_owned(),
            _ => error.to_string(),
        })?;
        let (at, watch) = (now(), ChildWatch::new(&child));
        let next_poll = at + watch.poll_interval(deadline.saturating_duration_since(at));
        Ok(RunningCheck { child, watch, deadline, next_poll, is_killed: false, status: None })
    }

    /// Stores `status` if `pid` is the process of this command.
    pub(super) fn on_reaped(&mut self, pid: Pid, status: WaitStatus) {
        if pid == Pid::from_child(&self.child) {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }

    /// Returns the outcome, or `None` while the command runs within its time limit.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Result<(), String>> {
        let ended = self.status.is_some() || child_end(Pid::from_child(&self.child)).is_some();
        if !ended && now < self.deadline {
            self.next_poll = now + self.watch.poll_interval(self.deadline.saturating_duration_since(now));
            return None;
        }
        Some(match self.kill_and_reap() {
            _ if !ended => Err("timed out".into()),
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(match (status.code(), status.signal()) {
                (Some(code), _) => self.read_message().unwrap_or_else(|| format!("exited with {code}")),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => "ended".into(),
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

    /// Kills the command unless it has ended. Returns the command's exit status.
    fn kill_and_reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        self.is_killed = true;
        let _ = self.child.kill();
        for _ in 0..REAP_ATTEMPTS {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for RunningCheck {
    fn drop(&mut self) {
        if !self.is_killed {
            let _ = self.kill_and_reap();
        }
    }
}

/// Runs a command to its end, at most for `limit`. The error is a short description of the result.
pub(crate) fn run_to_end(argv: &Argv, limit: Duration, shows_output: bool) -> Result<(), String> {
    let mut running = RunningCheck::start(argv, now() + limit, shows_output)?;
    loop {
        if let Some(outcome) = running.poll(now()) {
            return outcome;
        }
        let pause = running.next_poll.saturating_duration_since(now());
        let _ = poll(&mut running.poll_fd().into_iter().collect::<Vec<_>>(), Timespec::try_from(pause).ok().as_ref());
    }
}

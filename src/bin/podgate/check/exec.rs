//! `exec:["COMMAND","ARG"]`: a command that runs inside the container like an `exec` probe. Its children end with the
//! command.

use crate::clock::now;
use podgate::core::argv::Argv;
use podgate::edge::sys::die_with_parent;
use podgate::edge::watch::wait_until_ready;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, pidfd_open, waitpid,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Kinds of children that this process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildScope {
    /// Only checks. Podgate kills all processes that a check leaves behind.
    ChecksOnly,
    /// Also the container's command and its orphans. Podgate can't distinguish these from the orphans of a check.
    WithCommand,
}

#[derive(Debug)]
pub(super) struct RunningCheck {
    child: Child,
    child_scope: ChildScope,
    pidfd: OwnedFd,
    pub(super) deadline: Instant,
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
    /// Starts the command with `/dev/null` as input and output.
    pub(super) fn start(argv: &Argv, deadline: Instant, children: ChildScope) -> Result<RunningCheck, String> {
        let Some((program, arguments)) = argv.as_slice().split_first() else { return Err("no command".to_owned()) };
        // Adopt orphans, so that podgate can kill them with the command.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        // Exclude other children of the hook, such as the tether process.
        let earlier_children = all_children();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "command not found".to_owned(),
            _ => error.to_string(),
        })?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            error.to_string()
        })?;
        Ok(RunningCheck {
            child,
            child_scope: children,
            pidfd,
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
        let ended = wait_until_ready(&self.pidfd, PollFlags::IN, Duration::ZERO);
        if !ended && now < self.deadline {
            return None;
        }
        Some(match self.kill_and_reap() {
            _ if !ended => Err("timed out".to_owned()),
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with {code}"),
                (None, Some(signal)) => format!("died of signal {signal}"),
                (None, None) => "ended".to_owned(),
            }),
            Err(error) => Err(error.to_string()),
        })
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.pidfd, PollFlags::IN)
    }

    /// Kills the command's process group and its orphans. Returns the command's exit status.
    fn kill_and_reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Kill the group before reaping the command. After that, the group's id may be reused.
        if !self.is_group_killed {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.is_group_killed = true;
        }
        let status = self.child.wait();
        if self.child_scope == ChildScope::WithCommand {
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
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
        }
        status
    }
}

impl Drop for RunningCheck {
    fn drop(&mut self) {
        let _ = self.kill_and_reap();
    }
}

pub(super) fn run_to_end(argv: &Argv, limit: Duration) -> Result<(), String> {
    let mut running = RunningCheck::start(argv, now() + limit, ChildScope::ChecksOnly)?;
    loop {
        if let Some(outcome) = running.poll(now()) {
            return outcome;
        }
        let left = running.deadline.saturating_duration_since(now());
        wait_until_ready(&running.pidfd, PollFlags::IN, left);
    }
}

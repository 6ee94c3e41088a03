//! The container's command as a child: started, told what we are told, ended where podgate has to, waited for.

use super::verdict::EndReason;
use crate::entrypoint::exec;
use crate::failure::Failure;
use podgate::edge::process::exit_code;
use podgate::edge::sys::{die_with_parent, signal_group, start_in_foreground};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgrp, wait, waitid};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tracing::warn;

/// Every signal that can be taken and passed on, and `SIGCHLD`. Not those that a fault of our own raises, nor `SIGPIPE`, which
/// std has ignored: blocked, one from our own write would be passed on.
pub(super) fn forwarded_signals() -> Vec<i32> {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV, SIGSTOP, SIGTRAP};
    let others = [SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPIPE];
    (1..=64).filter(|signal| !others.contains(signal)).collect()
}

/// Whether this signal tells a container to end: TERM unless its image names another, which is one of these as a rule.
pub(super) fn is_stop_signal(signal: i32) -> bool {
    matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGQUIT)
}

/// The command, from its start on.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    status: Option<ExitStatus>,
    /// Why podgate ends it, and when it loses patience.
    ending: Option<(EndReason, Instant)>,
    is_killed: bool,
    /// The terminal was ours, and is now the command's.
    has_terminal: bool,
    /// Somebody else has told it to end.
    pub(super) is_stop_requested: bool,
}

impl Child {
    /// Starts `command` in a process group of its own, with these for its output.
    pub(super) fn start(command: &[OsString], stdout: Stdio, stderr: Stdio) -> Result<Child, Failure> {
        let mut command = exec::command(command)?;
        command.stdout(stdout).stderr(stderr).process_group(0);
        die_with_parent(&mut command);
        let has_terminal = tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        if has_terminal {
            start_in_foreground(&mut command);
        }
        // From here on it is waited for as one child among others.
        let child = command.spawn().map_err(|error| exec::exec_failure(&command, &error))?;
        let pid = Pid::from_child(&child);
        Ok(Child { pid, status: None, ending: None, is_killed: false, has_terminal, is_stop_requested: false })
    }

    pub(super) fn forward(&mut self, signal: i32) {
        self.is_stop_requested |= is_stop_signal(signal);
        if self.status.is_none() {
            signal_group(self.pid, signal);
        }
    }

    /// Ends it: by TERM, and after `grace` by KILL. The first reason counts.
    pub(super) fn terminate(&mut self, why: EndReason, now: Instant, grace: Duration) {
        if self.ending.is_none() && self.status.is_none() {
            // Who gets TERM twice may take it for impatience.
            if !self.is_stop_requested {
                signal_group(self.pid, libc::SIGTERM);
            }
            self.ending = Some((why, now + grace));
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// When it is killed, if it is to be and has not been.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.ending.as_ref().filter(|_| !self.is_killed).map(|(_, at)| *at)
    }

    /// Kills it if it has been told to end and has had its time.
    pub(super) fn kill_if_due(&mut self, now: Instant) {
        if self.status.is_none() && self.kill_at().is_some_and(|at| now >= at) {
            warn!("the command has not ended by TERM in time, and is killed");
            signal_group(self.pid, libc::SIGKILL);
            self.is_killed = true;
        }
    }

    /// Waits for every process that has ended and is ours by birth or as an orphan, and gives `others` those that are not the
    /// command.
    pub(super) fn reap(&mut self, mut others: impl FnMut(Pid, WaitStatus)) {
        if self.ending.is_some() && self.status.is_none() {
            // As long as it has not been waited for, the group's number is its own: what is left of the group goes with it.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Ok(Some(_)) = waitid(WaitId::Pid(self.pid), look) {
                signal_group(self.pid, libc::SIGKILL);
            }
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.status = Some(ExitStatus::from_raw(status.as_raw()));
            } else {
                others(pid, status);
            }
        }
    }

    /// Takes the terminal back, once the command has ended. TTOU must be blocked.
    pub(super) fn take_terminal_back(&mut self) {
        if std::mem::take(&mut self.has_terminal) {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }

    /// Its exit code, 128 + N for signal N, once it has ended.
    pub(super) fn exit_code(&self) -> Option<u8> {
        self.status.map(exit_code)
    }

    /// Why podgate has ended it, if it has.
    pub(super) fn into_end_reason(self) -> Option<EndReason> {
        self.ending.map(|(why, _)| why)
    }
}

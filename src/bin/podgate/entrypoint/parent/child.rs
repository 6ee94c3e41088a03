//! The container's command as a child process: start, signals, termination, exit status.

use super::verdict::EndReason;
use crate::entrypoint::exec;
use crate::failure::Failure;
use crate::signals;
use podgate::edge::process::{exit_code, has_child_ended};
use podgate::edge::sys::{die_with_parent, signal_group, start_in_foreground};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpgrp, wait};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tracing::warn;

#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    /// Signal that podgate sends to stop the command.
    stop_signal: i32,
    status: Option<ExitStatus>,
    /// Reason why podgate ends the command, and time at which SIGKILL is due. `None` if the command may continue.
    ending: Option<(EndReason, Instant)>,
    is_killed: bool,
    /// True if podgate has handed its terminal to the command.
    has_terminal: bool,
    /// True if podgate has forwarded a stop signal.
    pub(super) is_stop_requested: bool,
}

impl Child {
    /// Starts `command` in its own process group, with these output streams.
    pub(super) fn start(
        command: &[OsString],
        stop_signal: i32,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<Child, Failure> {
        let mut command = exec::command(command)?;
        command.stdout(stdout).stderr(stderr).process_group(0);
        die_with_parent(&mut command);
        let has_terminal = tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        if has_terminal {
            start_in_foreground(&mut command);
        }
        // From here on, `reap` waits for the command like for any other child.
        let child = command.spawn().map_err(|error| exec::exec_failure(&command, &error))?;
        let pid = Pid::from_child(&child);
        Ok(Child {
            pid,
            stop_signal,
            status: None,
            ending: None,
            is_killed: false,
            has_terminal,
            is_stop_requested: false,
        })
    }

    pub(super) fn forward(&mut self, signal: i32) {
        self.is_stop_requested |= signals::is_stop(signal) || signal == self.stop_signal;
        if self.status.is_none() {
            signal_group(self.pid, signal);
        }
    }

    /// Stops the command: sends the stop signal now, and SIGKILL after `grace`. Only the first call has an effect.
    pub(super) fn terminate(&mut self, why: EndReason, now: Instant, grace: Duration) {
        if self.ending.is_none() && self.status.is_none() {
            // Do not repeat the stop signal: many programs treat a second one as "quit immediately".
            if !self.is_stop_requested {
                signal_group(self.pid, self.stop_signal);
            }
            self.ending = Some((why, now + grace));
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the time at which SIGKILL is due, or `None` if no SIGKILL is pending.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.ending.as_ref().filter(|_| !self.is_killed).map(|(_, at)| *at)
    }

    pub(super) fn kill_if_due(&mut self, now: Instant) {
        if self.status.is_none() && self.kill_at().is_some_and(|at| now >= at) {
            warn!("the command did not end after {}; sending SIGKILL", signals::name(self.stop_signal));
            signal_group(self.pid, libc::SIGKILL);
            self.is_killed = true;
        }
    }

    /// Reaps all children that have ended, including adopted orphans. Passes all but the command itself to `others`.
    pub(super) fn reap(&mut self, mut others: impl FnMut(Pid, WaitStatus)) {
        // Kill the rest of the group before reaping the command. After that, the group's id may be reused.
        if self.ending.is_some() && self.status.is_none() && has_child_ended(self.pid) {
            signal_group(self.pid, libc::SIGKILL);
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.status = Some(ExitStatus::from_raw(status.as_raw()));
            } else {
                others(pid, status);
            }
        }
    }

    /// Takes the terminal back after the command has ended. SIGTTOU must be blocked.
    pub(super) fn take_terminal_back(&mut self) {
        if std::mem::take(&mut self.has_terminal) {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }

    /// Returns the exit code of the ended command, or 128 + N if signal N ended it. `None` while the command runs.
    pub(super) fn exit_code(&self) -> Option<u8> {
        self.status.map(exit_code)
    }

    /// Returns the reason why podgate has ended the command; `None` if the command ended by itself.
    pub(super) fn into_end_reason(self) -> Option<EndReason> {
        self.ending.map(|(why, _)| why)
    }
}

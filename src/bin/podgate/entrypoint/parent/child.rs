//! The container's command as a child process: start, signals, termination, exit status.

use super::verdict::EndReason;
use crate::failure::Failure;
use crate::signals;
use podgate::edge::process::{exit_code, has_child_ended};
use podgate::edge::sys::{die_with_parent, signal_group, start_in_foreground};
use rustix::io::FdFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus, getpgrp, wait};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use tracing::warn;

/// Time limit for the command's end after SIGKILL. The kernel cannot end a process that waits for a mount that does not
/// answer.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    /// Pipe from the process that starts the command. Contains text only if the command could not be started.
    start_failure: PipeReader,
    stop_signal: i32,
    status: Option<ExitStatus>,
    /// Reason why podgate ends the command, and time at which SIGKILL is due. `None` if the command may continue.
    ending: Option<(EndReason, Instant)>,
    is_killed: bool,
    /// True if podgate has handed its terminal to the command.
    has_terminal: bool,
    pub(super) is_stop_requested: bool,
}

impl Child {
    /// Starts `command` in its own process group.
    ///
    /// Spawning a process waits for its `execve`, which may block on a dead mount. So this function spawns podgate's
    /// own program, which then executes `command`.
    pub(super) fn start(command: &[OsString], stop_signal: i32) -> Result<Child, Failure> {
        let pipe = || -> io::Result<_> {
            let (reader, writer) = io::pipe()?;
            rustix::io::ioctl_fionbio(&reader, true)?;
            // Let the child inherit the write end of the pipe.
            rustix::io::fcntl_setfd(&writer, FdFlags::empty())?;
            Ok((reader, writer))
        };
        let cannot_start = || Failure::setup_error("cannot start a process for the command");
        let (start_failure, writer) = pipe().map_err(cannot_start())?;
        let mut starter = Command::new(crate::OWN_PROGRAM);
        starter.args(["exec", "--failure-to", &writer.as_raw_fd().to_string(), "--"]).args(command);
        starter.process_group(0);
        die_with_parent(&mut starter);
        let has_terminal = tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        if has_terminal {
            start_in_foreground(&mut starter);
        }
        // `reap` collects the command's exit status, so `child` is needed only for the pid.
        let child = starter.spawn().map_err(cannot_start())?;
        let pid = Pid::from_child(&child);
        Ok(Child {
            pid,
            start_failure,
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

    /// Returns the time at which SIGKILL is due or, after SIGKILL, at which the wait for the command ends.
    pub(super) fn due(&self) -> Option<Instant> {
        let (_, kill_at) = self.ending.as_ref().filter(|_| self.status.is_none())?;
        Some(if self.is_killed { *kill_at + KILL_TIMEOUT } else { *kill_at })
    }

    pub(super) fn kill_if_due(&mut self, now: Instant) {
        if self.due().is_none_or(|at| now < at) {
            return;
        }
        if std::mem::replace(&mut self.is_killed, true) {
            warn!("the command did not end after SIGKILL, for example because a mount does not answer");
            self.status = Some(ExitStatus::from_raw(libc::SIGKILL));
        } else {
            warn!("the command did not end after {}; sending SIGKILL", signals::name(self.stop_signal));
            signal_group(self.pid, libc::SIGKILL);
        }
    }

    /// Reaps all children that have ended, including adopted orphans. Passes all of them except the command to
    /// `others`.
    pub(super) fn reap(&mut self, mut others: impl FnMut(Pid, WaitStatus)) {
        // Kill the rest of the group before reaping the command. After the reaping, the group's id may be reused.
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
    ///
    /// # Errors
    /// Returns the reason if the command could not be started.
    pub(super) fn into_end_reason(mut self) -> Result<Option<EndReason>, Failure> {
        let mut why = String::new();
        // If the process still runs, the pipe is still open, and the read fails after the text. Ignore that error.
        let _ = self.start_failure.read_to_string(&mut why);
        match self.status.map(exit_code) {
            Some(code) if !why.is_empty() => Err(Failure(code, why)),
            _ => Ok(self.ending.map(|(why, _)| why)),
        }
    }
}

//! The container's command as a child process: start, signals, termination, exit status.

use super::EndReason;
use crate::failure::Failure;
use crate::signals;
use podgate::edge::process::{child_end, exit_code, overrides_default_action};
use podgate::edge::sys::{die_with_parent, send_signal, start_in_foreground};
use rustix::io::FdFlags;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, kill_process_group, test_kill_process_group, wait,
};
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

pub(super) struct Child {
    pid: Pid,
    /// Pipe from the process that starts the command. Contains text only if the command could not be started.
    start_failure: PipeReader,
    stop_signal: i32,
    status: Option<ExitStatus>,
    /// Reason why podgate ends the command, and time at which SIGKILL is due. `None` if the command may continue.
    ending: Option<(EndReason, Instant)>,
    is_killed: bool,
    /// True if the command has ended, but processes of its stopped group still run.
    has_rest: bool,
    /// True if podgate has handed its terminal to the command.
    has_terminal: bool,
    /// Set by a stop signal: true if the whole process group has received it, false if only the command has.
    group_stopped: Option<bool>,
}

impl Child {
    /// Starts `command` in its own process group.
    ///
    /// Spawning a process waits for its `execve`, which may block on a dead mount. So this function spawns podgate's
    /// own program, which then executes `command`.
    pub(super) fn spawn_starter(command: &[OsString], stop_signal: i32) -> Result<Child, Failure> {
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
            has_rest: false,
            has_terminal,
            group_stopped: None,
        })
    }

    /// Sends `signal` to the command alone if the command handles it, as the runtime does with process 1. Otherwise the
    /// signal may end the command, for example a shell in front of a server. The whole process group then receives it.
    pub(super) fn forward(&mut self, signal: i32) {
        let with_group = !overrides_default_action(self.pid, signal);
        if self.status.is_none() {
            send_signal(self.pid, signal, with_group);
        }
        if self.is_stop(signal) {
            self.group_stopped = self.group_stopped.max(Some(with_group));
        }
    }

    /// Stops the command: sends the stop signal now, and SIGKILL after `grace`. Only the first call has an effect.
    pub(super) fn terminate(&mut self, why: EndReason, now: Instant, grace: Duration) {
        if self.ending.is_none() && self.exit_code().is_none() {
            // Do not repeat the stop signal: many programs treat a second one as "quit immediately".
            if !self.was_stop_signal_sent() {
                self.forward(self.stop_signal);
            }
            self.ending = Some((why, now + grace));
        }
    }

    fn is_stop(&self, signal: i32) -> bool {
        signals::usually_stops_command(signal) || signal == self.stop_signal
    }

    pub(super) fn was_stop_signal_sent(&self) -> bool {
        self.group_stopped.is_some()
    }

    /// Returns true if podgate itself has begun to end the command. A stop signal from outside does not count.
    pub(super) fn is_being_ended_by_podgate(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the time at which SIGKILL is due or, after SIGKILL, at which the wait for the command ends.
    pub(super) fn due(&self) -> Option<Instant> {
        let (_, kill_at) = self.ending.as_ref().filter(|_| self.status.is_none() || self.has_rest)?;
        Some(if self.is_killed { *kill_at + KILL_TIMEOUT } else { *kill_at })
    }

    /// Sends SIGKILL if it is due. If the wait after an earlier SIGKILL is over, counts the command as killed.
    pub(super) fn kill_if_due(&mut self, now: Instant) {
        if self.due().is_none_or(|at| now < at) {
            return;
        }
        if std::mem::replace(&mut self.is_killed, true) {
            warn!("the command did not end after SIGKILL, for example because a mount does not answer");
            self.status.get_or_insert(ExitStatus::from_raw(libc::SIGKILL));
            self.has_rest = false;
        } else {
            warn!("the command did not end after {}; sending SIGKILL", signals::name(self.stop_signal));
            if kill_process_group(self.pid, Signal::KILL).is_err() && self.status.is_none() {
                send_signal(self.pid, libc::SIGKILL, false);
            }
        }
    }

    /// Reaps all children that have ended, including adopted orphans. Passes all of them except the command to
    /// `others`.
    pub(super) fn reap(&mut self, mut others: impl FnMut(Pid, WaitStatus)) {
        // Signal the rest of the group before reaping the command. After the reaping, the group's id may be reused.
        let running = self.status.is_none().then_some(self.pid);
        if let Some(end) = running.and_then(child_end).filter(|_| self.group_stopped != Some(true)) {
            let signal = end.terminating_signal().filter(|signal| self.is_stop(*signal));
            if let Some(signal) = signal.filter(|_| self.was_stop_signal_sent()) {
                // A shell blocks signals while it starts a process, so it only seemed to handle this signal.
                send_signal(self.pid, signal, true);
                self.group_stopped = Some(true);
            } else if self.ending.is_some() {
                // As the end of process 1 does, kill the rest of the group.
                send_signal(self.pid, libc::SIGKILL, true);
            }
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.status = Some(ExitStatus::from_raw(status.as_raw()));
            } else {
                others(pid, status);
            }
        }
        // Podgate adopts the processes of the group, so the end of the last one causes a SIGCHLD.
        let is_waiting = self.status.is_some() && self.group_stopped == Some(true);
        self.has_rest = is_waiting && test_kill_process_group(self.pid).is_ok();
    }

    /// Takes the terminal back after the command has ended. SIGTTOU must be blocked.
    pub(super) fn take_terminal_back(&mut self) {
        if std::mem::take(&mut self.has_terminal) {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }

    /// Returns the exit code of the ended command, or 128 + N if signal N ended it. `None` while the command or its
    /// stopped group runs.
    pub(super) fn exit_code(&self) -> Option<u8> {
        self.status.filter(|_| !self.has_rest).map(exit_code)
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

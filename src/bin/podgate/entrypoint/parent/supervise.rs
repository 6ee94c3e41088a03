//! The poll loop while the command runs. It handles signals, orphans, checks, the pod's state and deadlines.

use super::EndReason;
use super::child::Child;
use super::dependencies::Dependencies;
use crate::args::EntrypointArgs;
use crate::check::Checks;
use crate::clock::now;
use crate::common::report::Reporter;
use crate::failure::Failure;
use crate::pod_sources::PodSources;
use podgate::core::gate::SIDECAR_START_TIMEOUT;
use podgate::edge::sys::SignalFd;
use podgate::edge::watch::{REREAD_INTERVAL_MIN, WakeReason, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Instant;
use tracing::{info, warn};

pub(super) struct Supervisor<'a> {
    pub(super) args: &'a EntrypointArgs,
    pub(super) sources: &'a PodSources,
    pub(super) signals: &'a SignalFd,
    pub(super) reporter: &'a mut Reporter,
    pub(super) dependencies: Dependencies,
    pub(super) child: Child,
    pub(super) checks: Checks,
    /// Watch on the Pod's state. `None` if no flag needs that state, or the Pod has no source for it.
    pub(super) watch: Option<Watch>,
    /// Time of the next read of the pod's state, unless a source changes earlier.
    pub(super) next_read: Instant,
    pub(super) started: Instant,
    pub(super) has_warned: bool,
}

impl Supervisor<'_> {
    pub(super) fn run(&mut self) -> io::Result<()> {
        while self.child.exit_code().is_none() {
            if self.watch.is_some() && now() >= self.next_read {
                self.check_pod();
            }
            self.run_checks();
            self.enforce_deadlines();
            if self.child.exit_code().is_some() {
                break;
            }
            // A timeout triggers a read too, because polling has no other trigger.
            if self.sleep()? != WakeReason::Other {
                self.next_read = now();
            }
            while let Some(signal) = self.signals.next_signal() {
                match signal {
                    // One SIGCHLD may stand for several children.
                    libc::SIGCHLD => self.child.reap(|pid, status| self.checks.on_reaped(pid, status)),
                    other => self.child.forward(other),
                }
            }
        }
        Ok(())
    }

    /// Returns the command's exit code, and the reason why podgate has ended the command, if it has. Fails with the
    /// reason if the command could not be started.
    pub(super) fn finish(mut self) -> Result<(u8, Option<EndReason>), Failure> {
        self.checks.abort_running();
        self.child.take_terminal_back();
        let code = self.child.exit_code().unwrap_or_default();
        self.child.into_end_reason().map(|why| (code, why))
    }

    fn check_pod(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let view = watch.read(|| self.sources.view());
        let at = now();
        // A restart window and the delay of the warning below end without an event, so read again later.
        self.next_read = at + REREAD_INTERVAL_MIN;
        self.reporter.refresh(&view, !self.checks.is_empty() && self.checks.describe_pending().is_empty());
        match self.dependencies.end_reason(&view, at) {
            Some(EndReason::Restarted(_)) if self.child.was_stop_signal_sent() => {}
            Some(why) => self.end_command(why, at),
            None => {}
        }
        if !self.has_warned && at >= self.started + SIDECAR_START_TIMEOUT {
            let unknown = self.dependencies.unknown_stop_after(&view);
            self.has_warned = !unknown.is_empty();
            if self.has_warned {
                warn!("--stop-after {}: the pod has no such container", unknown.join(","));
            }
        }
    }

    fn end_command(&mut self, why: EndReason, now: Instant) {
        if !self.child.is_being_ended_by_podgate() {
            match &why {
                EndReason::AllExited => info!("{} has exited; ending the command", self.args.stop_after.join(", ")),
                EndReason::Restarted(name) => info!("{name} was restarted; ending the command"),
                EndReason::TimedOut(_) => info!("the command timed out; ending it"),
            }
        }
        self.child.terminate(why, now, self.args.grace);
    }

    /// Runs the checks that are due, and reports when all have passed.
    fn run_checks(&mut self) {
        if self.checks.describe_pending().is_empty() {
            return;
        }
        self.checks.run_due(now(), &|| self.sources.view().pod_ip());
        if self.checks.describe_pending().is_empty() {
            self.reporter.refresh(&self.sources.view(), true);
        }
    }

    fn enforce_deadlines(&mut self) {
        let at = now();
        if let Some(limit) = self.args.command_timeout
            && at >= self.started + limit
        {
            self.end_command(EndReason::TimedOut(limit), at);
        }
        self.child.kill_if_due(at);
    }

    fn sleep(&mut self) -> io::Result<WakeReason> {
        let limit = self.args.command_timeout.map(|limit| self.started + limit);
        let limit = limit.filter(|_| !self.child.is_being_ended_by_podgate());
        let next_read = self.watch.as_ref().map(|_| self.next_read);
        let next = [limit, self.child.due(), self.checks.next_due(), next_read].into_iter().flatten().min();
        let pause = next.map(|at| at.saturating_duration_since(now()));
        let mut set = vec![PollFd::new(self.signals, PollFlags::IN)];
        set.extend(self.checks.poll_fds());
        if let Some(watch) = &mut self.watch {
            return watch.wait(pause.unwrap_or(REREAD_INTERVAL_MIN), set);
        }
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        match poll(&mut set, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(WakeReason::NoEvent),
            Ok(_) => Ok(WakeReason::Other),
            Err(error) => Err(error.into()),
        }
    }
}

//! While the command runs: signals, orphans, its output, its own checks, the pod, the clock.

use super::child::Child;
use super::follow::Follow;
use super::tee::Tee;
use super::verdict::Why;
use crate::args::Entrypoint;
use crate::check::Checks;
use crate::clock::now;
use crate::gate::place::Place;
use crate::gate::report::Reporter;
use podgate::core::argv::Check;
use podgate::core::gate::SETTLING;
use podgate::edge::sys::Signals;
use podgate::edge::watch::{SLOW_REREAD, Watch, Woken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The loop around a running command.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    args: &'a Entrypoint,
    place: &'a Place,
    signals: &'a Signals,
    reporter: &'a mut Reporter,
    follow: Follow,
    child: Child,
    tees: Vec<Tee>,
    checks: Checks,
    /// All own checks have passed, and the controller was told.
    has_passed: bool,
    /// `None` where nothing of the pod matters any more.
    watch: Option<Watch>,
    /// When it reads again, whatever wakes it until then.
    next_look: Instant,
    started: Instant,
    has_warned: bool,
}

impl<'a> Supervisor<'a> {
    #[allow(clippy::too_many_arguments, reason = "called once")]
    pub(super) fn new(
        args: &'a Entrypoint,
        place: &'a Place,
        signals: &'a Signals,
        reporter: &'a mut Reporter,
        follow: Follow,
        child: Child,
        tees: Vec<Tee>,
        own_checks: Vec<Check>,
    ) -> Supervisor<'a> {
        let started = now();
        // A controller that begins anew has to be told again of checks that have passed.
        let matters = !follow.watched().is_empty() || !own_checks.is_empty();
        let watch = (matters && place.has_source()).then(|| place.watch());
        Supervisor {
            args,
            place,
            signals,
            reporter,
            follow,
            child,
            tees,
            checks: Checks::new(own_checks, args.waits.check_timeout, started).beside_the_command(),
            has_passed: false,
            watch,
            next_look: started,
            started,
            has_warned: false,
        }
    }

    /// Returns when the command has ended.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while self.child.code().is_none() {
            if self.watch.is_some() && now() >= self.next_look {
                self.look();
            }
            self.check();
            self.enforce_deadlines();
            self.tees.iter_mut().for_each(Tee::pump);
            // Time may be up for polling.
            if self.sleep()? != Woken::Other {
                self.next_look = now();
            }
            while let Some(signal) = self.signals.next() {
                match signal {
                    // Several may have ended by one.
                    libc::SIGCHLD => self.child.reap(|pid, status| self.checks.was_reaped(pid, status)),
                    other => self.child.forward(other),
                }
            }
        }
        Ok(())
    }

    /// The command's exit code, why podgate has ended it, and whether it was told to end by another. What is still to be copied
    /// of its output is copied.
    pub(super) fn finish(mut self) -> (u8, Option<Why>, bool) {
        self.checks.stand_down();
        self.child.take_terminal_back();
        self.tees.into_iter().for_each(Tee::drain);
        let (code, was_told) = (self.child.code().unwrap_or_default(), self.child.was_told);
        (code, self.child.into_why(), was_told)
    }

    fn look(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let view = watch.read(|| self.place.view());
        let here = now();
        self.next_look = here + SLOW_REREAD;
        self.reporter.renew(&view, self.has_passed);
        match self.follow.look(&view, here) {
            Some(Why::Restarted(_)) if self.child.was_told => {}
            Some(why) => self.end(why, here),
            None => {}
        }
        if !self.has_warned && here >= self.started + SETTLING {
            let unknown = self.follow.unknown(&view);
            self.has_warned = !unknown.is_empty();
            if self.has_warned {
                warn!("--stop-after {}: the pod has no such container", unknown.join(","));
            }
        }
    }

    fn end(&mut self, why: Why, now: Instant) {
        if !self.child.is_ending() {
            match &why {
                Why::Done => info!("{} has exited, so the command is ended", self.args.stop_after.join(", ")),
                Why::Restarted(name) => info!("{name} was restarted, so the command is ended"),
                Why::TimedOut(_) => info!("the command has had its time, and is ended"),
            }
        }
        self.child.end(why, now, self.args.grace);
    }

    /// Makes the checks that are due, and tells when all have passed.
    fn check(&mut self) {
        if self.has_passed || self.checks.is_empty() {
            return;
        }
        let here = now();
        // Each has a limit of its own; the command has none that would matter to them.
        self.checks.run_due(here, here + Duration::from_secs(3600));
        if self.checks.pending().is_empty() {
            self.has_passed = true;
            self.reporter.renew(&self.place.view(), true);
        }
    }

    fn enforce_deadlines(&mut self) {
        let here = now();
        if let Some(limit) = self.args.command_timeout
            && here >= self.started + limit
        {
            self.end(Why::TimedOut(limit), here);
        }
        self.child.kill_if_due(here);
    }

    fn sleep(&mut self) -> io::Result<Woken> {
        let limit = self.args.command_timeout.map(|limit| self.started + limit);
        let limit = limit.filter(|_| !self.child.is_ending());
        let look = self.watch.as_ref().map(|_| self.next_look);
        let next = [limit, self.child.kill_at(), self.checks.next(), look].into_iter().flatten().min();
        let pause = next.map(|at| at.saturating_duration_since(now()));
        let mut set = vec![PollFd::new(self.signals, PollFlags::IN)];
        set.extend(self.checks.descriptor());
        set.extend(self.tees.iter().filter_map(Tee::interest));
        if let Some(watch) = &mut self.watch {
            return watch.wait(pause.unwrap_or(SLOW_REREAD), set);
        }
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        match poll(&mut set, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Woken::Time),
            Ok(_) => Ok(Woken::Other),
            Err(error) => Err(error.into()),
        }
    }
}

//! The wait itself: read, decide, sleep until something may have changed.

use crate::args::OnFailure;
use crate::check::Checks;
use crate::clock::now;
use crate::failed::Failed;
use crate::gate::place::Place;
use crate::gate::report::Reporter;
use crate::gate::voice::{Voice, list};
use podgate::core::exit::Exit;
use podgate::core::gate::{self, Controller, Decision, Obstacle, SETTLING, Terms, Waiter};
use podgate::core::names;
use podgate::core::sources::View;
use podgate::edge::lock;
use podgate::edge::sys::Signals;
use podgate::edge::watch::Watch;
use rustix::event::{PollFd, PollFlags};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// What one wait works with.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) place: &'a Place,
    /// Those that end the wait.
    pub(crate) signals: Option<&'a Signals>,
    pub(crate) since: Instant,
    pub(crate) timeout: Duration,
    pub(crate) on_timeout: OnFailure,
}

impl Wait<'_> {
    /// Waits. `voice` says for what, whenever that has changed.
    pub(crate) fn run(
        &self,
        mut checks: Checks,
        mut fallback: Checks,
        reporter: &mut Reporter,
        voice: &Voice,
    ) -> Result<(), Failed> {
        let deadline = self.since + self.timeout;
        let mut watch = self.place.watch();
        let mut rung = None;
        let mut reason = Vec::new();
        loop {
            let view = watch.read(|| self.place.view());
            reporter.follow(&view);
            if rung.replace(watch.rung()) != Some(watch.rung()) {
                info!(by = watch.rung().as_str(), "waits");
            }

            let here = now();
            checks.run_due(here, deadline);
            let dead = self.controller_is_dead(&watch, here);
            let controller = if dead {
                fallback.run_due(here, deadline);
                let given = || fallback.pending().pop().map_or(Ok(()), Err);
                Controller::Dead((!fallback.is_empty()).then(given))
            } else {
                fallback.stand_down();
                Controller::Lives
            };
            let waiter = Waiter {
                pending_checks: checks.pending(),
                hopeless: checks.hopeless(),
                controller,
                waited: here.saturating_duration_since(self.since),
            };
            match gate::decide(&view, &self.terms, &waiter) {
                Decision::Open(opening) => {
                    let waited = now().saturating_duration_since(self.since);
                    info!(waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), "released: {opening}");
                    return Ok(());
                }
                Decision::Over(ending) => return self.give_up(ending.exit(), ending.to_string()),
                Decision::Closed(mut obstacles) => {
                    // Only who waits has something to say: a restart that is released at once wakes no settled controller.
                    if let View::Word(snapshot, _) = &view {
                        let passed = !checks.is_empty() && waiter.pending_checks.is_empty();
                        reporter.tell(snapshot, passed);
                        obstacles.extend(reporter.error.clone().map(Obstacle::Unreported));
                    }
                    if obstacles != reason {
                        voice.waits(&obstacles);
                        reason = obstacles;
                    }
                }
            }
            // Looked at anew: checks take time.
            let here = now();
            let left = deadline.saturating_duration_since(here);
            if left.is_zero() {
                let limit = humantime::format_duration(self.timeout);
                let why = format!("timed out after {limit}, still waiting for {}", list(&reason));
                return self.give_up(Exit::TimedOut, why);
            }
            let next = if dead { checks.next().into_iter().chain(fallback.next()).min() } else { checks.next() };
            let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
            let signals = self.signals.map(|signals| PollFd::new(signals, PollFlags::IN));
            let others = checks.descriptor().or_else(|| fallback.descriptor()).into_iter().chain(signals);
            watch.wait(pause, others.collect()).map_err(Failed::set_up("can't wait"))?;
            if let Some(signal) = self.signals.and_then(Signals::next) {
                let name = if signal == libc::SIGINT { "INT" } else { "TERM" };
                return Err(Failed::by_signal(signal, &format!("{name} while waiting; the command was not run")));
            }
        }
    }

    /// Fails, unless the user wants to go on: what `--on-timeout` says of a time-out holds for a condition that can never be met
    /// too, and not for a mistake in the set-up or the end of the pod.
    fn give_up(&self, exit: Exit, why: String) -> Result<(), Failed> {
        if self.on_timeout == OnFailure::Continue && matches!(exit, Exit::TimedOut | Exit::Never) {
            warn!("{why}; goes on, as --on-timeout continue says");
            return Ok(());
        }
        Err(Failed::new(exit, why))
    }

    /// A bell with nobody behind it, or one that never came, counts once the lock that a working controller holds is free too.
    fn controller_is_dead(&self, watch: &Watch, now: Instant) -> bool {
        if watch.controller_lives() && now < self.since + SETTLING {
            return false;
        }
        if !watch.has_bell() && (now < self.since + SETTLING || !self.place.board.is_dir()) {
            return false;
        }
        matches!(lock::is_held(&self.place.board.join(names::CONTROLLER_FILE)), Ok(false))
    }
}

//! The wait itself: read, decide, sleep until something may have changed.

use crate::args::OnFailure;
use crate::check::Checks;
use crate::clock::now;
use crate::failure::Failure;
use crate::gate::messenger::{Messenger, join_obstacles};
use crate::gate::pod_sources::PodSources;
use crate::gate::report::Reporter;
use podgate::core::exit::Exit;
use podgate::core::gate::{self, Controller, Decision, GateSpec, Observations, Obstacle, SETTLE_TIME};
use podgate::core::names;
use podgate::core::sources::PodView;
use podgate::edge::lock;
use podgate::edge::sys::SignalFd;
use podgate::edge::watch::Watch;
use rustix::event::{PollFd, PollFlags};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// What one wait works with.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) terms: GateSpec<'a>,
    pub(crate) sources: &'a PodSources,
    /// Those that end the wait.
    pub(crate) signals: Option<&'a SignalFd>,
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
        voice: &Messenger,
    ) -> Result<(), Failure> {
        let deadline = self.since + self.timeout;
        let mut watch = self.sources.watch();
        let mut rung = None;
        let mut reason = Vec::new();
        loop {
            let view = watch.read(|| self.sources.view());
            reporter.adopt_epoch(&view);
            if rung.replace(watch.method()) != Some(watch.method()) {
                info!(by = watch.method().as_str(), "waits");
            }

            let here = now();
            checks.run_due(here, deadline);
            let dead = self.is_controller_dead(&watch, here);
            let controller = if dead {
                fallback.run_due(here, deadline);
                let given = || fallback.pending().pop().map_or(Ok(()), Err);
                Controller::Dead((!fallback.is_empty()).then(given))
            } else {
                fallback.abort_running();
                Controller::Alive
            };
            let waiter = Observations {
                pending_checks: checks.pending(),
                impossible_check: checks.impossible_reason(),
                controller,
                waited: here.saturating_duration_since(self.since),
            };
            match gate::decide(&view, &self.terms, &waiter) {
                Decision::Open(opening) => {
                    let waited = now().saturating_duration_since(self.since);
                    info!(waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), "released: {opening}");
                    return Ok(());
                }
                Decision::GiveUp(ending) => return self.fail_or_continue(ending.exit_code(), ending.to_string()),
                Decision::Closed(mut obstacles) => {
                    // Only who waits has something to say: a restart that is released at once wakes no settled controller.
                    if let PodView::Snapshot(snapshot, _) = &view {
                        let passed = !checks.is_empty() && waiter.pending_checks.is_empty();
                        reporter.report_waiting(snapshot, passed);
                        obstacles.extend(reporter.error.clone().map(Obstacle::ReportFailed));
                    }
                    if obstacles != reason {
                        voice.report_wait(&obstacles);
                        reason = obstacles;
                    }
                }
            }
            // Looked at anew: checks take time.
            let here = now();
            let left = deadline.saturating_duration_since(here);
            if left.is_zero() {
                let limit = humantime::format_duration(self.timeout);
                let why = format!("timed out after {limit}, still waiting for {}", join_obstacles(&reason));
                return self.fail_or_continue(Exit::TimedOut, why);
            }
            let next =
                if dead { checks.next_due().into_iter().chain(fallback.next_due()).min() } else { checks.next_due() };
            let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
            let signals = self.signals.map(|signals| PollFd::new(signals, PollFlags::IN));
            let others = checks.poll_fd().or_else(|| fallback.poll_fd()).into_iter().chain(signals);
            watch.wait(pause, others.collect()).map_err(Failure::setup_error("can't wait"))?;
            if let Some(signal) = self.signals.and_then(SignalFd::next_signal) {
                let name = if signal == libc::SIGINT { "INT" } else { "TERM" };
                return Err(Failure::by_signal(signal, &format!("{name} while waiting; the command was not run")));
            }
        }
    }

    /// Fails, unless the user wants to go on: what `--on-timeout` says of a time-out holds for a condition that can never be met
    /// too, and not for a mistake in the set-up or the end of the pod.
    fn fail_or_continue(&self, exit: Exit, why: String) -> Result<(), Failure> {
        if self.on_timeout == OnFailure::Continue && matches!(exit, Exit::TimedOut | Exit::NeverMet) {
            warn!("{why}; goes on, as --on-timeout continue says");
            return Ok(());
        }
        Err(Failure::new(exit, why))
    }

    /// A bell with nobody behind it, or one that never came, counts once the lock that a working controller holds is free too.
    fn is_controller_dead(&self, watch: &Watch, now: Instant) -> bool {
        if watch.is_controller_alive() && now < self.since + SETTLE_TIME {
            return false;
        }
        if !watch.has_bell() && (now < self.since + SETTLE_TIME || !self.sources.board.is_dir()) {
            return false;
        }
        matches!(lock::is_held(&self.sources.board.join(names::CONTROLLER_FILE)), Ok(false))
    }
}

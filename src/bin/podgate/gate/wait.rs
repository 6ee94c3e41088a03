//! The wait itself: arm, read, decide, sleep until something may have changed.

use crate::check::Checks;
use crate::clock::now;
use crate::gate::report::Reporter;
use crate::gate::voice::Failed;
use podgate::core::exit::Exit;
use podgate::core::gate::{self, Controller, Decision, Ending, Opening, Own, SETTLING, Terms};
use podgate::core::names;
use podgate::core::sandbox::SandboxId;
use podgate::core::sources::{Source, View, choose};
use podgate::core::until::Until;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::sys::Signals;
use podgate::edge::wake::Wake;
use podgate::edge::{lock, source};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tracing::info;

/// How often in a row it arms and reads anew, without sleeping, because what was armed is not what was read.
pub(crate) const REARMS_MAX: u32 = 3;

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Open(Opening),
    Over(Ending),
    /// The deadline passed while it waited for these.
    TimedOut(Vec<String>),
    /// A signal came.
    Signal(i32),
    /// The kernel would not let it wait.
    Broken(io::Error),
}

/// Where the word on the pod is read.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) sandbox: SandboxId,
    pub(crate) board: PathBuf,
    pub(crate) podinfo: PathBuf,
    pub(crate) poll_interval: Duration,
}

impl Place {
    pub(crate) fn new(board: PathBuf, podinfo: PathBuf, poll_interval: Duration) -> Place {
        Place { sandbox: sandbox_id(), board, podinfo, poll_interval }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.board.is_dir() || self.podinfo.is_dir()
    }

    /// Conditions need something to read them from.
    pub(crate) fn must_serve(&self, untils: &[Until]) -> Result<(), Failed> {
        if untils.is_empty() || self.has_source() {
            return Ok(());
        }
        let (board, podinfo) = (self.board.display(), self.podinfo.display());
        let why = format!(
            "nothing to read from: neither the board {board} nor the downward-API volume {podinfo} is there; mount them, or give --check"
        );
        Err(Failed::new(Exit::SetUp, why))
    }

    /// What is believed of the pod now.
    pub(crate) fn view(&self) -> View {
        choose(&self.sandbox, source::board(&self.board), source::volume(&self.podinfo))
    }
}

/// What one wait works with.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) place: &'a Place,
    /// Those that end the wait.
    pub(crate) signals: Option<&'a Signals>,
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
}

impl Wait<'_> {
    /// Waits. `explain` is called whenever the reason for waiting has changed.
    pub(crate) fn run(
        &self,
        mut checks: Checks,
        mut fallback: Checks,
        reporter: &mut Reporter,
        mut explain: impl FnMut(&[String]),
    ) -> Outcome {
        let mut wake = Wake::new(self.place.board.clone(), self.place.podinfo.clone(), self.place.poll_interval);
        let mut rung = None;
        let mut reason = Vec::new();
        let mut bell_suffices = true;
        let mut rearms = 0;
        loop {
            let armed = wake.arm(bell_suffices);
            let view = self.place.view();
            reporter.follow(&view);
            // A volume that is not armed must not be what counts.
            let from_board = matches!(view, View::Word(_, Source::Board));
            let stale = from_board != bell_suffices || !wake.still_armed();
            bell_suffices = from_board;
            if !stale && rung.replace(armed) != Some(armed) {
                info!(by = armed.as_str(), "waits");
            }

            let here = now();
            checks.run_due(here, self.deadline);
            let dead = self.controller_is_dead(&wake, here);
            if dead {
                fallback.run_due(here, self.deadline);
            } else {
                fallback.stand_down();
            }
            let own = Own {
                pending_checks: checks.pending(),
                hopeless: checks.hopeless(),
                controller: if dead { Controller::Dead(judged(&fallback)) } else { Controller::Lives },
                waited: here.saturating_duration_since(self.since),
            };
            match gate::decide(&view, &self.terms, &own) {
                Decision::Open(opening) => return Outcome::Open(opening),
                Decision::Over(ending) => return Outcome::Over(ending),
                Decision::Closed(mut waiting) => {
                    // Only who waits has something to say: a restart that is released at once wakes no settled controller.
                    if let View::Word(snapshot, _) = &view {
                        let passed = !checks.is_empty() && own.pending_checks.is_empty();
                        reporter.tell(snapshot, passed);
                        if let Some(error) = &reporter.error {
                            waiting.push(format!(
                                "can't report to the controller ({error}); mount this container's own folder there"
                            ));
                        }
                    }
                    if waiting != reason {
                        explain(&waiting);
                        reason = waiting;
                    }
                }
            }
            // Looked at anew: checks take time.
            let here = now();
            let left = self.deadline.saturating_duration_since(here);
            if left.is_zero() {
                return Outcome::TimedOut(reason);
            }
            if stale && rearms < REARMS_MAX {
                rearms += 1;
                continue;
            }
            rearms = 0;
            let next = if dead { checks.next().into_iter().chain(fallback.next()).min() } else { checks.next() };
            let pause = next.map_or(left, |at| at.saturating_duration_since(here).min(left));
            let others = [checks.descriptor().or_else(|| fallback.descriptor()), self.signals.map(AsFd::as_fd)];
            if let Err(error) = wake.wait(pause, &others.into_iter().flatten().collect::<Vec<_>>()) {
                return Outcome::Broken(error);
            }
            if let Some(signal) = self.signals.and_then(Signals::next) {
                return Outcome::Signal(signal);
            }
        }
    }

    /// A bell with nobody behind it, or one that never came, counts once the lock that a working controller holds is free too.
    fn controller_is_dead(&self, wake: &Wake, now: Instant) -> bool {
        if wake.controller_lives() && now < self.since + SETTLING {
            return false;
        }
        if !wake.has_bell() && (now < self.since + SETTLING || !self.place.board.is_dir()) {
            return false;
        }
        matches!(lock::is_held(&self.place.board.join(names::CONTROLLER_FILE)), Ok(false))
    }
}

/// What the fallback check gives, if there is one.
fn judged(fallback: &Checks) -> Option<Result<(), String>> {
    if fallback.is_empty() {
        return None;
    }
    Some(match fallback.pending().pop() {
        None => Ok(()),
        Some(why) => Err(why),
    })
}

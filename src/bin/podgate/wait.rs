//! The wait itself: arm, read, decide, sleep until something may have changed.

use crate::check::Checks;
use crate::clock::now;
use crate::report::Reporter;
use podgate::core::gate::{self, Controller, Decision, Ending, Opening, Own, SETTLING, Terms};
use podgate::core::names;
use podgate::core::sandbox::SandboxId;
use podgate::core::sources::{Source, View, choose};
use podgate::edge::wake::Wake;
use podgate::edge::{lock, source};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::info;

/// How often in a row it arms and reads anew, without sleeping, because what was armed is not what was read.
const REARMS_MAX: u32 = 3;

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Open(Opening),
    Over(Ending),
    /// The deadline passed while it waited for these.
    TimedOut(Vec<String>),
    /// The kernel would not let it wait.
    Broken(io::Error),
}

/// What one wait works with.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) sandbox: &'a SandboxId,
    pub(crate) board: &'a Path,
    pub(crate) podinfo: &'a Path,
    pub(crate) poll_interval: Duration,
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
        let mut wake = Wake::new(self.board.to_owned(), self.podinfo.to_owned(), self.poll_interval);
        let mut rung = None;
        let mut reason = Vec::new();
        let mut bell_suffices = true;
        let mut rearms = 0;
        loop {
            let armed = wake.arm(bell_suffices);
            let view = choose(self.sandbox, source::board(self.board), source::volume(self.podinfo));
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
                    }
                    if let Some(error) = &reporter.error {
                        waiting.push(format!(
                            "can't report to the controller ({error}); mount this container's own folder there"
                        ));
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
            let other = checks.descriptor().or_else(|| fallback.descriptor());
            if let Err(error) = wake.wait(pause, other) {
                return Outcome::Broken(error);
            }
        }
    }

    /// A bell with nobody behind it, or one that never came, counts once the lock that a working controller holds is free too.
    fn controller_is_dead(&self, wake: &Wake, now: Instant) -> bool {
        if wake.controller_lives() && now < self.since + SETTLING {
            return false;
        }
        if !wake.has_bell() && (now < self.since + SETTLING || !self.board.is_dir()) {
            return false;
        }
        matches!(lock::is_held(&self.board.join(names::CONTROLLER_FILE)), Ok(false))
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

//! Staying after having been told to end, for containers whose preStop hooks keep them until others are gone. Pure.

use crate::judge::world::World;
use podgate::core::report::Stopping;
use std::time::{Duration, Instant};

/// How long a preStop hook may take to say that it has begun.
const BEGINS_WITHIN: Duration = Duration::from_millis(1500);

/// The controller has been told to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Staying {
    pub(crate) signal: &'static str,
    /// `None` when it was told twice: then it does not stay.
    pub(crate) since: Option<Instant>,
}

impl Staying {
    /// Whether a preStop hook still needs the board, or may have yet to begin.
    pub(crate) fn goes_on(&self, world: &World, now: Instant) -> bool {
        let Some(since) = self.since else { return false };
        let may_begin = now.saturating_duration_since(since) < BEGINS_WITHIN;
        world.may_stay().any(|track| match track.stopping() {
            Stopping::Begun => true,
            Stopping::No => may_begin,
            Stopping::Over => false,
        })
    }

    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.since.map(|since| since + BEGINS_WITHIN).filter(|at| *at > now)
    }
}

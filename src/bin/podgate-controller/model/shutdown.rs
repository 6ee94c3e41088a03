//! Staying after having been told to end, for containers whose preStop hooks keep them until others are gone. Pure.

use crate::model::pod::PodModel;
use podgate::core::report::PreStopState;
use std::time::{Duration, Instant};

/// How long a preStop hook may take to say that it has begun.
const PRE_STOP_START_TIMEOUT: Duration = Duration::from_millis(1500);

/// The controller has been told to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shutdown {
    pub(crate) signal: &'static str,
    /// `None` when it was told twice: then it does not stay.
    pub(crate) signaled_at: Option<Instant>,
}

impl Shutdown {
    /// Whether a preStop hook still needs the board, or may have yet to begin.
    pub(crate) fn must_wait(&self, world: &PodModel, now: Instant) -> bool {
        let Some(since) = self.signaled_at else { return false };
        let may_begin = now.saturating_duration_since(since) < PRE_STOP_START_TIMEOUT;
        world.pre_stop_containers().any(|track| match track.stopping() {
            PreStopState::Begun => true,
            PreStopState::NotBegun => may_begin,
            PreStopState::Finished => false,
        })
    }

    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.signaled_at.map(|since| since + PRE_STOP_START_TIMEOUT).filter(|at| *at > now)
    }
}

//! Keeps the sidecar running after SIGTERM while preStop hooks still need the board. No I/O.

use crate::model::pod::PodModel;
use podgate::core::report::PreStopState;
use std::time::{Duration, Instant};

/// Time limit for the first report of a preStop hook after SIGTERM.
const PRE_STOP_START_TIMEOUT: Duration = Duration::from_millis(1500);

/// State of the shutdown after the first signal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shutdown {
    pub(crate) signal: &'static str,
    /// Time of the first signal; `None` after a second signal, which skips the wait.
    pub(crate) signaled_at: Option<Instant>,
}

impl Shutdown {
    /// Returns true while a preStop hook runs or may still begin.
    pub(crate) fn must_wait(&self, pod: &PodModel, now: Instant) -> bool {
        let Some(since) = self.signaled_at else { return false };
        let may_begin = now.saturating_duration_since(since) < PRE_STOP_START_TIMEOUT;
        pod.pre_stop_containers().any(|track| match track.stopping() {
            PreStopState::Begun => true,
            PreStopState::NotBegun => may_begin,
            PreStopState::Finished => false,
        })
    }

    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.signaled_at.map(|since| since + PRE_STOP_START_TIMEOUT).filter(|at| *at > now)
    }
}

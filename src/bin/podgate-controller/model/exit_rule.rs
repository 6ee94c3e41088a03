//! Decides when the sidecar exits. No I/O.

use crate::input::pod_facts::PodFacts;
use crate::model::pod::PodModel;
use podgate::core::report::PreStopState;
use std::time::{Duration, Instant};

/// Time limit for the first report of a preStop hook after SIGTERM.
const PRE_STOP_START_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides when the sidecar exits: after a signal or, if the sidecar is a regular container, when all other containers
/// have ended.
#[derive(Debug, Default)]
pub(crate) struct ExitRule {
    pub(crate) signal: Option<&'static str>,
    /// Time of the first signal; `None` after a second signal, which skips the wait for preStop hooks.
    signaled_at: Option<Instant>,
    /// True if the sidecar is a regular container and must exit after all other containers have ended for good.
    pub(crate) must_end_with_others: bool,
    pub(crate) have_others_ended: bool,
}

impl ExitRule {
    pub(crate) fn on_signal(&mut self, signal: &'static str, now: Instant) {
        self.signaled_at = self.signal.replace(signal).is_none().then_some(now);
    }

    pub(crate) fn on_pod_update(&mut self, facts: &PodFacts, trusted: bool) {
        self.must_end_with_others = facts.must_end_with_others;
        self.have_others_ended |= facts.must_end_with_others && trusted && facts.have_others_ended;
    }

    /// Returns the name of the signal if the sidecar must exit now. Returns `None` without a signal, and while a
    /// preStop hook runs or may still begin. A sidecar that is a regular container gets SIGTERM together with the other
    /// containers, whose hooks still need the board.
    pub(crate) fn ending_signal(&self, pod: &PodModel, now: Instant) -> Option<&'static str> {
        let may_begin = self.due().is_some_and(|at| now < at);
        let must_wait = pod.pre_stop_containers().any(|track| match track.stopping() {
            PreStopState::Begun => true,
            PreStopState::NotBegun => may_begin,
            PreStopState::Finished => false,
        });
        self.signal.filter(|_| self.signaled_at.is_none() || !must_wait)
    }

    /// Returns the time after which the sidecar no longer waits for a preStop hook to begin.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.signaled_at.map(|since| since + PRE_STOP_START_TIMEOUT)
    }
}

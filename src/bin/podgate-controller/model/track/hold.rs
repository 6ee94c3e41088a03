//! Evidence and decisions for the gate of a container in hold mode. The kubelet enforces this gate.

use super::{Confirmation, ContainerTrack};
use crate::model::hold_gate::{HoldGate, HoldState};
use podgate::core::container::Mode;
use podgate::core::restart::RestartDecision;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use std::time::{Duration, Instant, SystemTime};

impl ContainerTrack {
    /// Returns true if this incarnation of the container is known to run.
    fn is_running(&self) -> bool {
        !self.has_ended() && !self.is_gate_closed() && self.evidence().started
    }

    /// Returns true if the container is in hold mode, does not run, and may start.
    pub(in crate::model) fn may_be_held(&self) -> bool {
        let for_good = self.has_ended()
            && (self.restart_decision() == Some(RestartDecision::Final) || self.kubelet_shows_final_end());
        self.spec.mode == Mode::Hold && !self.is_running() && !for_good
    }

    /// Notes if the container has passed its open gate. Restarts the time limit if the container runs or has run.
    /// Creates the gate if necessary.
    pub(in crate::model) fn note_run_past_gate(&mut self, now: Instant, wall_clock: SystemTime) {
        let (is_running, ended_at) = (self.is_running(), self.ended_at());
        let gate = self.hold.get_or_insert_with(|| HoldGate::new(now, wall_clock, self.is_resumed));
        self.answers.has_passed_gate |= is_running && gate.state.is_open();
        // A short run may end before its start is observed, so an end while the gate is open counts too.
        let has_run = || ended_at.zip(gate.state.open_since()).is_some_and(|(ended_at, since)| ended_at >= since);
        if is_running || has_run() {
            gate.reset_time_limit(now);
        }
    }

    /// Returns the state that the gate must have, by the `published` states; `None` if the container has no gate.
    pub(in crate::model) fn wanted_hold_state(&self, published: &Snapshot, now: Instant) -> Option<HoldState> {
        let is_met = self.spec.until.iter().all(|until| until.is_met(published));
        let skip_after = self.hold_limit().filter(|_| self.spec.continue_on_timeout && self.may_be_held());
        let is_confirmed = self.confirmation.as_ref().is_some_and(Confirmation::is_done);
        Some(self.hold.as_ref()?.wanted_state(is_met, is_confirmed, skip_after, now))
    }

    /// Returns `Violated` or `TimedOut` if the gate of a held container shows it, and otherwise `observed`, the state
    /// as determined without a gate.
    pub(in crate::model) fn hold_failure_or(&self, observed: State) -> State {
        let Some(gate) = &self.hold else { return observed };
        let started_at = self.kubelet_status.as_ref().and_then(|status| status.running_since);
        if !self.answers.has_passed_gate && started_at.is_some_and(|at| gate.is_closed_since(at)) {
            State::Violated
        } else if gate.state == HoldState::TimedOut && (observed == State::Waiting || observed.has_ended()) {
            State::TimedOut
        } else {
            observed
        }
    }

    /// Returns the time at which the end of the current incarnation was observed.
    pub(in crate::model) fn ended_at(&self) -> Option<Instant> {
        self.life.end().map(|end| end.at)
    }

    fn hold_limit(&self) -> Option<Duration> {
        self.spec.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Returns the time of the next action for the gate of the held container.
    pub(in crate::model) fn hold_due(&self) -> Option<Instant> {
        let gate = self.hold.as_ref()?;
        if self.may_be_held() { gate.due(self.hold_limit(), self.ended_at()) } else { gate.retry_at }
    }

    /// Ends the wait if its time limit has passed; the container stays held. Does nothing with on-timeout `continue`,
    /// because the gate then opens.
    pub(in crate::model) fn apply_hold_time_limit(&mut self, now: Instant) {
        let limit = self.hold_limit().filter(|_| !self.spec.continue_on_timeout && self.may_be_held());
        if let (Some(limit), Some(gate)) = (limit, &mut self.hold)
            && gate.deadline(limit).is_some_and(|at| at <= now)
        {
            gate.state = HoldState::TimedOut;
        }
    }
}

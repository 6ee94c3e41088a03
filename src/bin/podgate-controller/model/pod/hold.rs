//! Decides when the gates of held containers open and close. A gate follows its conditions: it is open while they hold.

use super::PodModel;
use crate::model::hold_gate::HoldGate;
use crate::model::pending_ack::PendingAck;
use crate::model::track::ContainerTrack;
use podgate::core::container::Mode;
use podgate::core::snapshot::REASON_ENDED;
use podgate::core::state::State;
use podgate::core::until::ConditionStatus;
use std::time::{Duration, Instant, SystemTime};

impl PodModel {
    /// Opens and closes gates as the published states require. `write` writes or removes the gate file of a container.
    /// It returns false on failure.
    pub(crate) fn update_gates(
        &mut self,
        now: Instant,
        wall_clock: SystemTime,
        mut write: impl FnMut(&str, bool) -> bool,
    ) {
        for at in 0..self.tracks.len() {
            let (track, resumed) = (&self.tracks[at], self.is_resumed);
            if track.spec.mode != Mode::Hold {
                continue;
            }
            let snapshot = self.published.as_ref();
            let is_met = snapshot.is_some_and(|snapshot| {
                track.spec.until.iter().all(|until| until.status(snapshot) == ConditionStatus::Met)
            });
            let needed = self.checks_before_opening(&track.spec.until, now);
            let track = &mut self.tracks[at];
            let (is_running, has_ended, ended_at) = (track.is_running(resumed), track.has_ended(), track.ended_at());
            let gate = track.hold.get_or_insert_with(|| HoldGate::new(now, wall_clock));
            gate.has_passed = !has_ended && (gate.has_passed || is_running && gate.is_open);
            // A short run may end before its start was observed.
            if is_running || ended_at.is_some_and(|at| gate.is_open && at >= gate.opened_at) {
                gate.restart_wait(now);
            }
            let open = if !is_met && !gate.is_skipped {
                gate.confirmation = None;
                false
            } else {
                gate.is_open || gate.is_skipped || gate.confirmation.get_or_insert(needed).is_done()
            };
            if open == gate.is_open {
                gate.retry_at = None;
            } else if gate.retry_at.is_none_or(|at| at <= now) {
                match write(&track.spec.name, open) {
                    true => gate.set_open(open, now, wall_clock),
                    false => gate.retry_later(now),
                }
            }
        }
    }

    /// Forgets all gates, after all gate files were removed.
    pub(crate) fn reset_gates(&mut self) {
        self.tracks.iter_mut().for_each(|track| track.hold = None);
    }

    /// Returns the held containers that a patch must release now: their gates are open, and the kubelet has not created
    /// them.
    pub(crate) fn take_release_requests(&mut self, now: Instant) -> Vec<String> {
        let resumed = self.is_resumed;
        let mut due = Vec::new();
        for track in self.tracks.iter_mut().filter(|track| track.may_be_held(resumed)) {
            let ended_at = track.ended_at();
            let Some(gate) = &mut track.hold else { continue };
            if gate.next_request(ended_at).is_some_and(|at| at <= now) {
                gate.note_request(now);
                due.push(track.spec.name.clone());
            }
        }
        self.releases += u64::from(!due.is_empty());
        due
    }

    /// Returns the number of releases so far; `None` if no container is in hold mode.
    pub(crate) fn releases(&self) -> Option<u64> {
        self.tracks.iter().any(|track| track.spec.mode == Mode::Hold).then_some(self.releases)
    }

    /// Returns true while the kubelet holds a container. Each sync of the Pod then delays the release of the container
    /// by up to a second, and each patch causes a sync.
    pub(crate) fn has_held_container(&self) -> bool {
        self.tracks.iter().any(|track| track.may_be_held(self.is_resumed))
    }

    pub(super) fn pending_acks(&mut self) -> impl Iterator<Item = &mut PendingAck> {
        self.tracks.iter_mut().flat_map(ContainerTrack::pending_acks_mut)
    }
}

impl ContainerTrack {
    /// Returns true if this incarnation of the container is known to run.
    pub(super) fn is_running(&self, resumed: bool) -> bool {
        !self.has_ended() && !self.is_gate_closed() && self.evidence(resumed).started
    }

    /// Returns true if the container is in hold mode, does not run, and may start.
    fn may_be_held(&self, resumed: bool) -> bool {
        let reason = self.kubelet_status().and_then(|status| status.stuck_reason.as_deref());
        let for_good = self.has_ended() && (self.has_ended_for_good() || reason == Some(REASON_ENDED));
        self.spec.mode == Mode::Hold && !self.is_running(resumed) && !for_good
    }

    /// Returns the state of a held container; `observed` is the state without regard to its gate.
    pub(super) fn hold_state(&self, observed: State, resumed: bool) -> State {
        let Some(gate) = &self.hold else { return observed };
        let started_at = self.kubelet_status().and_then(|status| status.running_since);
        if !gate.has_passed && started_at.is_some_and(|at| gate.is_violated_by(at, resumed)) {
            State::Violated
        } else if gate.has_timed_out && (observed == State::Waiting || observed.has_ended()) {
            State::TimedOut
        } else {
            observed
        }
    }

    /// Returns the time at which the wait of the held container times out.
    fn hold_deadline(&self, resumed: bool) -> Option<Instant> {
        let limit = Duration::from_secs(self.spec.timeout_seconds?.into());
        self.hold.as_ref()?.deadline(limit).filter(|_| self.may_be_held(resumed))
    }

    /// Returns the time of the next action for the gate of the held container.
    pub(super) fn hold_due(&self, resumed: bool) -> Option<Instant> {
        let gate = self.hold.as_ref()?;
        let request = if self.may_be_held(resumed) { gate.next_request(self.ended_at()) } else { None };
        request.into_iter().chain(gate.retry_at).chain(self.hold_deadline(resumed)).min()
    }

    pub(super) fn hold_tick(&mut self, now: Instant, resumed: bool) {
        if self.hold_deadline(resumed).is_some_and(|at| at <= now)
            && let Some(gate) = &mut self.hold
        {
            (gate.is_skipped, gate.has_timed_out) = (self.spec.continue_on_timeout, !self.spec.continue_on_timeout);
        }
    }
}

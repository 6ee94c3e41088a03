//! Decides when the gates of held containers open and close. A gate is open while its conditions are met.

use super::PodModel;
use crate::model::track::ContainerTrack;
use podgate::core::container::Mode;
use std::time::{Instant, SystemTime};

impl PodModel {
    /// Opens and closes gates as the published states require. `write` writes or removes the gate file of a container,
    /// and returns false on failure.
    pub(crate) fn update_gates(&mut self, now: Instant, wall: SystemTime, mut write: impl FnMut(&str, bool) -> bool) {
        for track in self.tracks.iter_mut().filter(|track| track.spec.mode == Mode::Hold) {
            track.note_run_past_gate(now, wall);
            let wanted = self.published.as_ref().and_then(|snapshot| track.wanted_hold_state(snapshot, now));
            let Some((wanted, gate)) = wanted.zip(track.hold.as_mut()) else { continue };
            if gate.must_change(wanted, now) {
                match write(&track.spec.name, wanted.is_open()) {
                    true => gate.record_state(wanted, now, wall),
                    false => gate.retry_later(now),
                }
            }
        }
    }

    /// Returns the held containers that a patch must release now: their gates are open, and the kubelet has not created
    /// them.
    pub(crate) fn take_release_requests(&mut self, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        for track in self.tracks.iter_mut().filter(|track| track.may_be_held()) {
            let ended_at = track.ended_at();
            let Some(gate) = &mut track.hold else { continue };
            if gate.next_release_request(ended_at).is_some_and(|at| at <= now) {
                gate.note_release_request(now);
                due.push(track.spec.name.clone());
            }
        }
        self.sync_request_count += u64::from(!due.is_empty());
        due
    }

    /// Returns true if a patch must now make the kubelet repeat the first run of a wrapped readinessProbe.
    pub(crate) fn take_lost_probe_request(&mut self, now: Instant) -> bool {
        let mut is_due = false;
        for track in self.tracks.iter_mut().filter(|track| track.lost_first_probe_due().is_some_and(|due| due <= now)) {
            track.repeated_probe_of = track.running_container_id();
            is_due = true;
        }
        self.sync_request_count += u64::from(is_due);
        is_due
    }

    /// Returns the number of releases and repeated probes so far; `None` if there was none and no container is in hold
    /// mode.
    pub(crate) fn sync_request_count(&self) -> Option<u64> {
        let is_held = self.tracks.iter().any(|track| track.spec.mode == Mode::Hold);
        (is_held || self.sync_request_count > 0).then_some(self.sync_request_count)
    }

    /// Returns true while the kubelet may hold a container. Each sync of the Pod then delays the container's release by
    /// up to a second, and each patch causes a sync.
    pub(crate) fn may_have_held_container(&self) -> bool {
        self.tracks.iter().any(ContainerTrack::may_be_held)
    }
}

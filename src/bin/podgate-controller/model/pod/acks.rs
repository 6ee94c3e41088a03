//! Checks a gate's dependencies again before the gate may open.

use super::PodModel;
use crate::model::pending_ack::PendingAck;
use crate::model::track::ContainerTrack;
use podgate::core::until::WaitCondition;
use std::collections::BTreeSet;
use std::time::Instant;

impl PodModel {
    /// Starts the acknowledgment of a waiting gate. The containers that the gate waits for must first be checked again,
    /// because their states may be outdated if the sidecar was idle.
    pub(super) fn begin_ack(&mut self, name: &str, now: Instant) {
        let waits_for = self.track(name).and_then(ContainerTrack::report).map(|report| report.waiting_for.clone());
        let checks = self.checks_before_opening(&waits_for.unwrap_or_default(), now);
        if let Some(ack) = self.track_mut(name).and_then(ContainerTrack::ack_mut) {
            *ack = Some(checks);
        }
    }

    /// Returns the checks that are needed before a gate with these conditions opens.
    pub(super) fn checks_before_opening(&self, waits_for: &[WaitCondition], now: Instant) -> PendingAck {
        let (mut unconfirmed, mut needs_pod_update) = (BTreeSet::new(), false);
        for until in waits_for {
            let Some(other) = self.track(&until.container) else { continue };
            match other.has_passed_probes() {
                // The user may have removed the override since the last update of the Pod.
                _ if other.override_state.is_some() => needs_pod_update |= self.is_pod_stale,
                true => _ = unconfirmed.insert(until.container.clone()),
                // A tether does not show whether an `exec` probe still passes.
                false => needs_pod_update |= self.is_pod_stale && (other.has_exec_probe() || !other.is_tether_held()),
            }
        }
        PendingAck { since: now, unconfirmed, needs_pod_update }
    }

    /// Returns the containers that must pass one more probe before a waiting gate is acknowledged.
    pub(crate) fn unconfirmed(&self) -> BTreeSet<String> {
        let acks = self.tracks.iter().filter_map(ContainerTrack::pending_ack);
        let confirmations = self.tracks.iter().filter_map(|track| track.hold.as_ref()?.confirmation.as_ref());
        acks.chain(confirmations).flat_map(|ack| ack.unconfirmed.iter().cloned()).collect()
    }

    /// Drops pending confirmations of containers that fail their probes, have ended or are overridden. For these
    /// containers, gates rely on the published state.
    pub(super) fn drop_moot_confirmations(&mut self) {
        let passed =
            |track: &ContainerTrack| track.has_passed_probes() && !track.has_ended() && track.override_state.is_none();
        let passing: BTreeSet<String> =
            self.tracks.iter().filter(|track| passed(track)).map(|track| track.spec.name.clone()).collect();
        self.pending_acks().for_each(|ack| ack.unconfirmed.retain(|name| passing.contains(name)));
    }
}

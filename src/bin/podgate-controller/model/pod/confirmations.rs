//! Confirms the conditions of a waiting gate before the gate may open.

use super::PodModel;
use crate::model::track::{Confirmation, ContainerTrack};
use podgate::core::snapshot::Snapshot;
use podgate::core::until::{WaitCondition, WantedState};
use std::collections::BTreeSet;
use std::time::Instant;

impl PodModel {
    /// Begins a confirmation for each waiting gate whose conditions are now met in `snapshot`, and drops it when a
    /// condition is no longer met. A dependency may have crashed without any sign since it became Ready.
    pub(super) fn update_confirmations(&mut self, snapshot: &Snapshot, now: Instant) {
        for at in 0..self.tracks.len() {
            let awaited = self.tracks[at].awaited_conditions();
            let met = awaited.filter(|conditions| conditions.iter().all(|until| until.is_met(snapshot)));
            let confirmation = met.map(|conditions| {
                let known = self.tracks[at].confirmation.clone();
                let mut one = known.unwrap_or_else(|| self.new_confirmation(conditions, now));
                // The user's override replaces all observations.
                one.to_confirm.retain(|name| self.track(name).is_some_and(|track| track.override_state.is_none()));
                one
            });
            self.tracks[at].confirmation = confirmation;
        }
    }

    fn new_confirmation(&self, conditions: &[WaitCondition], now: Instant) -> Confirmation {
        let (mut to_confirm, mut needs_pod_update) = (BTreeSet::new(), false);
        for until in conditions {
            let Some(other) = self.track(&until.container) else { continue };
            if other.override_state.is_none() && other.passes_all_probes() && until.want == WantedState::Ready {
                to_confirm.insert(until.container.clone());
            } else {
                // The user may have removed an override since the last update of the Pod. A tether does not show
                // whether an `exec` probe still passes.
                let has_other_proof = other.override_state.is_none() && other.is_tethered() && !other.has_exec_probe();
                needs_pod_update |= self.is_pod_stale && !has_other_proof;
            }
        }
        Confirmation { since: now, to_confirm, needs_pod_update }
    }

    /// Returns the containers that must pass one more probe before a waiting gate may open.
    pub(crate) fn containers_to_confirm(&self) -> BTreeSet<String> {
        let confirmations = self.tracks.iter().filter_map(|track| track.confirmation.as_ref());
        confirmations.flat_map(|one| one.to_confirm.iter().cloned()).collect()
    }

    pub(super) fn confirmations(&mut self) -> impl Iterator<Item = &mut Confirmation> {
        self.tracks.iter_mut().filter_map(|track: &mut ContainerTrack| track.confirmation.as_mut())
    }
}

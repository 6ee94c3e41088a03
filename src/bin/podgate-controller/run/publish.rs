//! Publishes states on the board and in the API.

use super::Controller;
use crate::clock::{now, wall_clock};
use podgate::core::annotations::{self, Annotations};
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use tracing::{error, info};

impl Controller {
    /// Determines all states, publishes changes, and starts and stops probing.
    pub(super) fn update(&mut self) {
        let snapshot = self.pod.update_snapshot().cloned();
        self.milestones.record(self.pod.tracks(), wall_clock());
        let mut is_published = false;
        if let Some(snapshot) = snapshot {
            let mut annotations = self.annotations(&snapshot);
            if let Some(since) = self.pod.sandbox_started_at {
                annotations
                    .insert(names::SANDBOX_SINCE.to_owned(), humantime::format_rfc3339_seconds(since).to_string());
            }
            // Write the board first, so that a slow API never delays a start. `Board` logs and retries failures.
            self.board.publish(annotations);
            is_published = true;
            for (name, state) in &snapshot.states {
                let before = self.published_states.insert(name.clone(), *state);
                if before == Some(*state) {
                    continue;
                }
                self.metrics.record_transition(name, before, *state);
                if *state == State::Violated {
                    error!(container = %name, "the container was created although its gate is closed; the order is lost");
                } else if let Some(before) = before {
                    info!(container = %name, was = %before, state = %state, revision = snapshot.revision, "state changed");
                }
            }
            if self.phase.replace(snapshot.phase) != Some(snapshot.phase) {
                info!(phase = %snapshot.phase, revision = snapshot.revision, "phase changed");
            }
        }
        let is_release = self.update_gates();
        if (is_published || is_release)
            && let Some(snapshot) = self.pod.published().cloned()
        {
            self.publish_to_api(&snapshot);
        }
        if self.pod.may_idle() && self.api_wait_until.is_none() {
            self.go_idle();
        }
        if self.is_idle {
            return;
        }
        for track in self.pod.tracks() {
            match self.pod.may_run(track) {
                true => self.prober.start(&track.spec, track.probing_run, track.has_passed_probes()),
                false => self.prober.stop(&track.spec.name),
            }
        }
        for name in self.pod.unconfirmed() {
            self.prober.confirm(&name);
        }
    }

    fn annotations(&self, snapshot: &Snapshot) -> Annotations {
        let mut annotations = snapshot.to_annotations();
        if let Some(times) = self.milestones.annotation_value() {
            annotations.insert(names::SANDBOX_TIMES.to_owned(), times);
        }
        annotations.insert(names::SANDBOX_SEEN.to_owned(), humantime::format_rfc3339_seconds(wall_clock()).to_string());
        annotations
    }

    /// Publishes the Pod's annotations in the API. Respects the rate limit of each container and the admission policy.
    /// A new number of releases also makes the kubelet create a held container, because an annotation change triggers a
    /// Pod sync.
    pub(super) fn publish_to_api(&mut self, snapshot: &Snapshot) {
        let Some(api) = &self.api else { return };
        let limited = self.api_limiter.limit(snapshot, now());
        let mut annotations = self.annotations(&limited);
        annotations.remove(names::SANDBOX_HEARD);
        if let Some(releases) = self.pod.releases() {
            // With the epoch, a restarted sidecar never repeats a value that the Pod already has.
            annotations.insert(names::SANDBOX_RELEASES.to_owned(), format!("{}.{releases}", snapshot.epoch));
        }
        annotations.values_mut().for_each(annotations::cap_list);
        let volatile = [names::SANDBOX_REVISION, names::SANDBOX_SEEN, names::SANDBOX_TIMES];
        let lasting = annotations.iter().filter(|(key, _)| !volatile.contains(&key.as_str()));
        let lasting: Annotations = lasting.map(|(key, value)| (key.clone(), value.clone())).collect();
        if self.sent_annotations != lasting {
            self.sent_annotations = lasting;
            api.publish(annotations, self.pod.has_held_container());
        }
    }
}

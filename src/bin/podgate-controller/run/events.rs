//! Handlers for events: updates of the Pod, results of probes, and changes in the containers' directories.

use super::Controller;
use crate::clock::now;
use crate::input::pod_facts::PodFacts;
use crate::model::ready_filter::KubeletReadyFilter;
use crate::model::status_trust::Trust;
use crate::model::track::ContainerTrack;
use crate::probe::prober::{Attempt, ProbeEvent};
use podgate::core::container_list::merge_containers;
use podgate::core::names;
use podgate::edge::source;
use std::time::Duration;
use tracing::{debug, warn};

impl Controller {
    pub(super) fn read_config_seen(&self) -> Option<String> {
        let read = source::read_volume_annotations(&self.podinfo, |key| key == names::CONFIG_SEEN_KEY);
        read.ok()?.remove(names::CONFIG_SEEN_KEY)
    }

    pub(super) fn on_pod_update(&mut self, facts: &PodFacts) {
        let trust = self.status_trust.on_pod_update(facts, now());
        if trust == Trust::Assumed {
            warn!(
                "the kubelet's start time of the sidecar's container is before the start of this process; check the node's clock"
            );
        }
        let trusted = trust != Trust::Outdated;
        self.pod.set_containers(merge_containers(&self.declared_containers, &facts.containers));
        self.directories.create(self.pod.tracks.iter().map(|track| &track.spec));
        self.pod.on_pod_update(facts, trusted, now());
        if !trusted {
            return;
        }
        self.idle_state.api_wait_until = None;
        let known_by_kubelet = || self.pod.tracks.iter().filter(|track| track.spec.uses_kubelet_ready());
        if known_by_kubelet().next().is_none() {
            return;
        }
        let seen = self.read_config_seen();
        if seen.is_none() {
            debug!("no kubernetes.io/config.seen in the downward-API volume: the kubelet's ready status is ignored");
        }
        let resumed_at = self.pod.epoch.is_resumed.then(now);
        for track in known_by_kubelet() {
            if let Some(status) = &track.kubelet_status {
                let startup_period =
                    track.spec.startup_probe.as_ref().map(|probe| Duration::from_secs(probe.period_seconds.into()));
                let filter = self.ready_filters.entry(track.spec.name.clone());
                let filter = filter.or_insert_with(|| KubeletReadyFilter::new(startup_period, resumed_at));
                filter.on_kubelet_status(status, seen.as_deref(), now());
            }
        }
        let is_untrusted = |filter: &KubeletReadyFilter| filter.due().is_none() && filter.accepted_ready.is_none();
        for (name, _) in self.ready_filters.iter().filter(|(_, filter)| is_untrusted(filter)) {
            self.pod.on_kubelet_ready(name, None);
        }
    }

    /// Handles outdated facts again when they have been unchanged for long enough to count as current.
    pub(super) fn recheck_outdated_facts(&mut self) {
        if let Some(facts) = self.status_trust.outdated.take() {
            self.on_pod_update(&facts);
        }
    }

    pub(super) fn recheck_ready_filters(&mut self) {
        let seen = self.read_config_seen();
        for (name, filter) in &mut self.ready_filters {
            if filter.recheck(seen.as_deref(), now()) {
                self.pod.on_kubelet_ready(name, filter.accepted_ready);
            }
        }
    }

    pub(super) fn on_probe_event(&mut self, event: ProbeEvent) {
        match event {
            ProbeEvent::Listening(container) => self.pod.on_listening(&container),
            ProbeEvent::AttemptEnded(Attempt { container, outcome, started_at, duration }, verdict) => {
                self.publisher.metrics.record_probe(&container, outcome.success, duration);
                self.pod.on_probe(&container, verdict, outcome.success, started_at);
            }
        }
    }

    pub(super) fn on_reports(&mut self) {
        for (container, mut directory) in self.directories.take_changes() {
            debug!(%container, report = ?directory.report, tether = directory.is_tethered, "report or tether changed");
            let may_have_ended = |track: &&ContainerTrack| !directory.is_tethered && track.ends_on_tether_drop();
            if let Some(track) = self.pod.track(&container).filter(may_have_ended) {
                directory.is_listening = self.prober.is_listening(&track.spec);
                if directory.is_listening && self.directories.rechecks_soon() {
                    // A process that has ended closes its ports within milliseconds, so check again.
                    self.directories.requeue(&container, &directory);
                    continue;
                }
            }
            if self.pod.on_report(&container, directory, now()) {
                self.wake_up(container);
            }
        }
    }
}

//! What the controller hears: of the API, of its own probing, of the containers' folders.

use super::{Controller, START_TIME_RESOLUTION};
use crate::clock::now;
use crate::input::folders::FolderChange;
use crate::input::pod_facts::PodFacts;
use crate::model::pod::Urgency;
use crate::model::ready_filter::ReadyFilter;
use crate::model::track::FolderState;
use crate::probe::prober::ProbeEvent;
use crate::setup::merge_containers;
use podgate::core::names;
use podgate::edge::source;
use tracing::{debug, warn};

impl Controller {
    pub(super) fn config_seen(&self) -> Option<String> {
        let read = source::read_volume_annotations(&self.podinfo, |key| key == names::KUBELET_CONFIG_SEEN);
        read.ok()?.remove(names::KUBELET_CONFIG_SEEN)
    }

    pub(super) fn on_pod_update(&mut self, facts: &PodFacts) {
        let trusted = facts.own_started_at.is_some_and(|start| start + START_TIME_RESOLUTION >= self.started_at);
        self.pod.set_containers(merge_containers(&self.declared_containers, &facts.containers));
        self.create_folders();
        self.pod.on_pod_update(facts, trusted, now());
        self.must_end_with_others = facts.must_end_with_others;
        self.have_others_ended |= facts.must_end_with_others && trusted && facts.have_others_ended;
        if !trusted {
            return;
        }
        self.api_wait_until = None;
        let needing: Vec<_> = self.pod.tracks().iter().filter(|track| track.has_exec_probe()).collect();
        if needing.is_empty() {
            return;
        }
        let seen = self.config_seen();
        if seen.is_none() {
            debug!("no kubernetes.io/config.seen in the downward-API volume: the kubelet's ready is not believed");
        }
        for track in needing {
            if let Some(word) = track.kubelet_status() {
                let has_startup = track.spec.startup_probe.is_some();
                let vet =
                    self.ready_filters.entry(track.spec.name.clone()).or_insert_with(|| ReadyFilter::new(has_startup));
                vet.on_kubelet_status(word, seen.as_deref(), now());
            }
        }
    }

    pub(super) fn on_probe_event(&mut self, found: ProbeEvent) {
        match found {
            ProbeEvent::Listening(container) => self.pod.on_listening(&container),
            ProbeEvent::AttemptEnded { container, verdict: word, outcome, started_at: began, duration: took } => {
                self.metrics.record_probe(&container, outcome.success, took);
                self.pod.on_probe(&container, word, outcome.success, began);
            }
        }
    }

    pub(super) fn on_reports(&mut self) {
        let (mut news, stopping) = (false, self.pod.stopping_count());
        for FolderChange {
            container,
            report,
            is_rewritten: rewritten,
            is_tether_held: held,
            is_last_check: is_last_look,
        } in self.folders.take_changes()
        {
            debug!(%container, ?report, held, "reported");
            let mut listens = false;
            if let Some(track) = self.pod.track(&container).filter(|track| !held && track.ends_on_tether_drop()) {
                listens = self.prober.is_listening(&track.spec);
                if listens && !is_last_look {
                    // A process that ends lets go of its ports within the moment, one that runs on does not.
                    self.folders.recheck(&container);
                    continue;
                }
            }
            news |= self.pod.on_report(
                &container,
                FolderState { report, is_rewritten: rewritten, is_tether_held: held, is_listening: listens },
                now(),
            );
        }
        if news {
            self.wake_up(if self.pod.stopping_count() > stopping { Urgency::Now } else { self.pod.urgency() });
        }
        if self.api.is_none() {
            // With the API the overrides come with the pod.
            let wanted = |key: &str| key.starts_with(names::OVERRIDE_PREFIX);
            if let Ok(overrides) = source::read_volume_annotations(&self.podinfo, wanted) {
                self.pod.on_overrides(&overrides);
            }
        }
    }

    pub(super) fn create_folders(&mut self) {
        let names = self.pod.tracks().iter().map(|track| track.spec.name.as_str());
        if let Err(error) = self.folders.create(names) {
            warn!(%error, "can't make a container's folder; its agent can't report");
        }
    }
}

//! What the controller hears: of the API, of its own probing, of the containers' folders.

use super::{Controller, RESOLUTION};
use crate::clock::now;
use crate::input::folders::Fresh;
use crate::input::observe::Facts;
use crate::judge::track::Folder;
use crate::judge::vet::Vet;
use crate::judge::world::Urgency;
use crate::probe::probing::Found;
use crate::setup::merge;
use podgate::core::names;
use podgate::edge::source;
use tracing::{debug, warn};

impl Controller {
    pub(super) fn config_seen(&self) -> Option<String> {
        let read = source::volume_annotations(&self.podinfo, |key| key == names::KUBELET_CONFIG_SEEN);
        read.ok()?.remove(names::KUBELET_CONFIG_SEEN)
    }

    pub(super) fn hear_pod(&mut self, facts: &Facts) {
        let trusted = facts.own_start.is_some_and(|start| start + RESOLUTION >= self.started_at);
        self.world.declare(merge(&self.declared, &facts.containers));
        self.make_folders();
        self.world.hear_kubelet(facts, trusted, now());
        self.ends_with_others = facts.ends_with_others;
        self.is_over |= facts.ends_with_others && trusted && facts.others_are_over;
        if !trusted {
            return;
        }
        self.looking_until = None;
        let needing: Vec<_> = self.world.tracks().iter().filter(|track| track.needs_kubelet()).collect();
        if needing.is_empty() {
            return;
        }
        let seen = self.config_seen();
        if seen.is_none() {
            debug!("no kubernetes.io/config.seen in the downward-API volume: the kubelet's ready is not believed");
        }
        for track in needing {
            if let Some(word) = track.kubelet() {
                let has_startup = track.declared.startup_probe.is_some();
                let vet = self.vets.entry(track.declared.name.clone()).or_insert_with(|| Vet::new(has_startup));
                vet.hear(word, seen.as_deref(), now());
            }
        }
    }

    pub(super) fn hear_probe(&mut self, found: Found) {
        match found {
            Found::Listens(container) => self.world.hear_listening(&container),
            Found::Attempt { container, word, outcome, began, took } => {
                self.metrics.probed(&container, outcome.success, took);
                self.world.hear_probe(&container, word, outcome.success, began);
            }
        }
    }

    pub(super) fn hear_folders(&mut self) {
        let (mut news, stopping) = (false, self.world.stopping());
        for Fresh { container, report, rewritten, held, is_last_look } in self.folders.fresh() {
            debug!(%container, ?report, held, "reported");
            let mut listens = false;
            if let Some(track) = self.world.track(&container).filter(|track| !held && track.would_end()) {
                listens = self.probing.listens(&track.declared);
                if listens && !is_last_look {
                    // A process that ends lets go of its ports within the moment, one that runs on does not.
                    self.folders.look_again(&container);
                    continue;
                }
            }
            news |= self.world.hear_folder(&container, Folder { report, rewritten, held, listens }, now());
        }
        if news {
            self.stir(if self.world.stopping() > stopping { Urgency::Now } else { self.world.urgency() });
        }
        if self.api.is_none() {
            // With the API the overrides come with the pod.
            let wanted = |key: &str| key.starts_with(names::OVERRIDE_PREFIX);
            if let Ok(overrides) = source::volume_annotations(&self.podinfo, wanted) {
                self.world.hear_overrides(&overrides);
            }
        }
    }

    pub(super) fn make_folders(&mut self) {
        let names = self.world.tracks().iter().map(|track| track.declared.name.as_str());
        if let Err(error) = self.folders.make(names) {
            warn!(%error, "can't make a container's folder; its agent can't report");
        }
    }
}

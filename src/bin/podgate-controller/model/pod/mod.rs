//! What the controller knows of the pod, and what follows from it: each container's state, the phase, the snapshot. No clock and
//! no I/O: evidence goes in, a snapshot comes out.

use crate::input::pod_facts::PodFacts;
use crate::model::track::{ContainerTrack, FolderState, PendingAck, TetherState};
use podgate::core::annotations::Annotations;
use podgate::core::container::{Container, Mode};
use podgate::core::evidence::resolve_state;
use podgate::core::names;
use podgate::core::probe;
use podgate::core::report::PreStopState;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::{REASON_ENDED, REVISION_MAX, Snapshot};
use podgate::core::state::{Phase, State};
use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

/// How soon the pod is to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A preStop hook has begun, and wants to know within a second whether the whole pod stops.
    Now,
    /// Somebody waits to be heard.
    Soon,
    /// Nobody waits for it.
    Later,
}

/// Everything known of one pod by one start of the controller.
#[derive(Debug)]
pub(crate) struct PodModel {
    sandbox: SandboxId,
    pub(crate) epoch: String,
    revision: u64,
    /// A board of this very sandbox was found at the start: containers may run whose hooks are long over.
    is_resumed: bool,
    /// When the first controller of this sandbox was started, by the kubelet's clock: what ended and was started before that,
    /// ended in another one.
    pub(crate) sandbox_started_at: Option<SystemTime>,
    has_api_answered: bool,
    /// The API is not watched: what it said last may be long ago.
    is_pod_stale: bool,
    is_deleting: bool,
    tracks: Vec<ContainerTrack>,
    published: Option<Snapshot>,
}

impl PodModel {
    /// An empty world. `last_revision` is what the board showed before.
    pub(crate) fn new(sandbox: SandboxId, epoch: String, last_revision: u64, resumed: bool) -> PodModel {
        PodModel {
            sandbox,
            epoch,
            revision: last_revision,
            is_resumed: resumed,
            sandbox_started_at: None,
            has_api_answered: false,
            is_pod_stale: false,
            is_deleting: false,
            tracks: Vec::new(),
            published: None,
        }
    }

    pub(crate) fn tracks(&self) -> &[ContainerTrack] {
        &self.tracks
    }

    pub(crate) fn track(&self, name: &str) -> Option<&ContainerTrack> {
        self.tracks.iter().find(|track| track.spec.name == name)
    }

    fn track_mut(&mut self, name: &str) -> Option<&mut ContainerTrack> {
        self.tracks.iter_mut().find(|track| track.spec.name == name)
    }

    /// Takes in what is declared. What is known of a container that is declared again is kept.
    pub(crate) fn set_containers(&mut self, containers: Vec<Container>) {
        let mut old = std::mem::take(&mut self.tracks);
        for declared in containers {
            match old.iter().position(|track| track.spec.name == declared.name) {
                Some(at) => {
                    let mut track = old.swap_remove(at);
                    track.spec = declared;
                    self.tracks.push(track);
                }
                None => self.tracks.push(ContainerTrack::new(declared)),
            }
        }
    }

    /// Takes in what lies in a container's own folder. Gives whether it says anything that counts.
    pub(crate) fn on_report(&mut self, name: &str, mut folder: FolderState, now: Instant) -> bool {
        folder.report = folder.report.filter(|report| report.is_from_sandbox(&self.sandbox));
        let Some(track) = self.tracks.iter_mut().find(|track| track.spec.name == name) else { return false };
        let news = track.on_report(folder, &self.epoch, now);
        if track.is_gate_waiting() && track.pending_ack.is_none() {
            self.begin_ack(name, now);
        }
        news
    }

    /// A gate has reported. It is told so when what it waits for has been looked at since: a state that is at rest may be what
    /// was seen long ago.
    fn begin_ack(&mut self, name: &str, now: Instant) {
        let waits_for =
            self.track(name).and_then(|track| track.report.as_ref()).map(|report| report.waiting_for.clone());
        let (mut unconfirmed, mut wants_facts) = (BTreeSet::new(), false);
        for until in waits_for.into_iter().flatten() {
            let Some(other) = self.track(&until.container) else { continue };
            match other.probe_verdict {
                // What an operator has said may have been taken back since.
                _ if other.override_state.is_some() => wants_facts |= self.is_pod_stale,
                Some(probe::ProbeVerdict::Passed) => _ = unconfirmed.insert(until.container),
                _ => wants_facts |= self.is_pod_stale && other.tether != TetherState::Held,
            }
        }
        if let Some(track) = self.track_mut(name) {
            track.pending_ack = Some(PendingAck { since: now, unconfirmed, needs_pod_update: wants_facts });
        }
    }

    /// The containers that are to be probed once more, for gates that have come since.
    pub(crate) fn unconfirmed(&self) -> BTreeSet<String> {
        let hearings =
            self.tracks.iter().filter(|track| track.is_gate_waiting()).filter_map(|track| track.pending_ack.as_ref());
        hearings.flat_map(|hearing| hearing.unconfirmed.iter().cloned()).collect()
    }

    pub(crate) fn mark_pod_stale(&mut self) {
        self.is_pod_stale = true;
    }

    /// The API has shown the pod. `trusted` says that the status was made after the controller's own start.
    pub(crate) fn on_pod_update(&mut self, facts: &PodFacts, trusted: bool, now: Instant) {
        self.has_api_answered = true;
        self.is_deleting |= facts.is_deleting;
        self.on_overrides(&facts.annotations);
        if !trusted {
            return;
        }
        self.is_pod_stale = false;
        if !self.is_resumed {
            self.sandbox_started_at = self.sandbox_started_at.or(facts.own_started_at);
        }
        for track in &mut self.tracks {
            if let Some(hearing) = &mut track.pending_ack {
                hearing.needs_pod_update = false;
            }
            let Some(word) = facts.kubelet_statuses.get(&track.spec.name) else { continue };
            let is_of_before =
                self.sandbox_started_at.zip(word.ended_run_started_at).is_some_and(|(since, started)| started < since);
            if is_of_before && word.termination.is_some() {
                continue;
            }
            track.on_kubelet_status(word, now);
        }
    }

    /// Overrides that an operator has written for this sandbox: `STATE@SANDBOX-ID`.
    pub(crate) fn on_overrides(&mut self, annotations: &Annotations) {
        for track in &mut self.tracks {
            let value = annotations.get(&format!("{}{}", names::OVERRIDE_PREFIX, track.spec.name));
            track.override_state = value.and_then(|value| {
                let (state, sandbox) = value.split_once('@')?;
                let sandbox: SandboxId = sandbox.parse().ok()?;
                // All parts must be known and equal: nothing that a template can carry fits.
                (sandbox == self.sandbox).then(|| state.parse().ok())?
            });
        }
    }

    /// An attempt to probe, begun at `began`, has come to a word.
    pub(crate) fn on_probe(&mut self, name: &str, word: probe::ProbeVerdict, success: bool, began: Instant) {
        let Some(track) = self.track_mut(name) else { return };
        track.probe_verdict = Some(word);
        if success {
            for hearing in self.tracks.iter_mut().filter_map(|track| track.pending_ack.as_mut()) {
                if hearing.since <= began {
                    hearing.unconfirmed.remove(name);
                }
            }
        }
    }

    pub(crate) fn on_listening(&mut self, name: &str) {
        if let Some(track) = self.track_mut(name) {
            track.is_listening = true;
        }
    }

    /// The kubelet's `ready` for a container, once it could be trusted; `None` while it can't.
    pub(crate) fn on_kubelet_ready(&mut self, name: &str, ready: Option<bool>) {
        if let Some(track) = self.track_mut(name) {
            track.kubelet_ready = ready;
        }
    }

    /// When [`tick`](World::tick) has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.tracks.iter().filter_map(ContainerTrack::due).min()
    }

    /// Lets time pass.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.tracks.iter_mut().for_each(|track| track.tick(&self.epoch, now));
    }

    /// Whether `track` may run by now, so that looking at its port says something.
    pub(crate) fn may_run(&self, track: &ContainerTrack) -> bool {
        if track.termination.is_some() || track.is_gate_closed() {
            return false;
        }
        let before = || self.tracks.iter().take_while(|other| other.spec.name != track.spec.name);
        track.is_known_running()
            || self.is_resumed
            || (track.spec.mode != Mode::PostStart
                && before().filter(|other| other.spec.mode == Mode::PostStart).all(|other| other.has_started))
    }

    /// The containers whose probing belongs to an incarnation that is over; each is named once.
    pub(crate) fn take_stale_probes(&mut self) -> Vec<String> {
        self.tracks.iter_mut().filter_map(|t| t.take_stale_probing().then(|| t.spec.name.clone())).collect()
    }

    /// Draws the conclusions, and gives the snapshot to publish if it differs from the last one.
    pub(crate) fn update_snapshot(&mut self) -> Option<&Snapshot> {
        for track in &mut self.tracks {
            track.state = track.override_state.unwrap_or_else(|| resolve_state(&track.evidence(self.is_resumed)));
            track.was_ready |= track.state == State::Ready;
        }
        self.drop_moot_confirmations();
        self.mark_started();
        let next = self.build_snapshot();
        if self.published.as_ref().is_some_and(|last| Snapshot { revision: last.revision, ..next.clone() } == *last) {
            return None;
        }
        // At the largest revision the word stays what it was: better stale than unreadable. It takes 2^53 changes.
        self.revision = (self.revision + 1).min(REVISION_MAX);
        self.published = Some(Snapshot { revision: self.revision, ..next });
        self.published.as_ref()
    }

    /// What does not pass any more holds its gates back by itself, and when it passes again that is news.
    fn drop_moot_confirmations(&mut self) {
        let passed =
            |track: &ContainerTrack| track.has_passed_probes() && !track.has_ended() && track.override_state.is_none();
        let passing: BTreeSet<String> =
            self.tracks.iter().filter(|track| passed(track)).map(|track| track.spec.name.clone()).collect();
        for hearing in self.tracks.iter_mut().filter_map(|track| track.pending_ack.as_mut()) {
            hearing.unconfirmed.retain(|name| passing.contains(name));
        }
    }

    /// A container has started for the pod's phase when nothing waits in it any more: a hook is over when its container was
    /// Ready, or when a later container runs, since the kubelet starts that only after it.
    fn mark_started(&mut self) {
        let mut later_runs = false;
        for track in self.tracks.iter_mut().rev() {
            let runs = track.state != State::Waiting;
            track.has_started |= match track.spec.mode {
                Mode::PostStart => track.was_ready || later_runs,
                Mode::Entrypoint | Mode::None => runs,
            };
            // A gate that is open says nothing of the hooks before it: nobody waits for it under a freeze.
            later_runs |= runs && track.spec.mode != Mode::Entrypoint && track.is_known_running();
        }
    }

    fn build_snapshot(&self) -> Snapshot {
        // Without the API, a container with neither hook nor gate nor port can't be seen to start; nobody waits for it.
        let counts = |track: &&ContainerTrack| track.spec.mode != Mode::None || self.has_api_answered;
        let started = self.tracks.iter().any(|track| track.spec.mode != Mode::None)
            && self.tracks.iter().filter(counts).all(|track| track.has_started);
        let phase = match (self.is_deleting, started) {
            (true, _) => Phase::Terminating,
            (false, true) => Phase::Started,
            (false, false) => Phase::Starting,
        };
        let name = |track: &ContainerTrack| track.spec.name.clone();
        let stuck = self.tracks.iter().filter_map(|track| {
            if !self.has_api_answered && track.has_ended_for_good() {
                return Some((name(track), REASON_ENDED.to_owned()));
            }
            let reason = track.kubelet_status.as_ref()?.stuck_reason.clone()?;
            // An end that an earlier incarnation came to is no word on this one.
            (reason != REASON_ENDED || track.termination.is_some()).then(|| (name(track), reason))
        });
        let stops = |track: &&ContainerTrack| track.stopping() != PreStopState::NotBegun;
        Snapshot {
            sandbox: self.sandbox.clone(),
            epoch: self.epoch.clone(),
            revision: 0,
            phase,
            states: self.tracks.iter().map(|track| (name(track), track.state)).collect(),
            order: self.tracks.iter().map(name).collect(),
            stuck: stuck.collect(),
            heard_tickets: self
                .tracks
                .iter()
                .filter_map(|track| Some((name(track), track.acked_ticket()?.to_owned())))
                .collect(),
            stopping: self.tracks.iter().filter(stops).map(name).collect(),
            restarts: self.tracks.iter().filter(|t| t.restarts > 0).map(|t| (name(t), t.restarts)).collect(),
        }
    }

    /// Whether nothing more is to be learnt: all have started, and each is Ready or has ended.
    pub(crate) fn may_idle(&self) -> bool {
        // Who has ended and will be started again is not at rest; without the API nobody knows.
        let for_good = |track: &ContainerTrack| {
            track.kubelet_status().is_some_and(|word| word.stuck_reason.as_deref() == Some(REASON_ENDED))
        };
        let rests = |track: &ContainerTrack| {
            track.state == State::Ready || track.state.has_ended() && (!self.has_api_answered || for_good(track))
        };
        self.published.as_ref().is_some_and(|last| last.phase == Phase::Started)
            && self.tracks.iter().all(|track| rests(track) && track.stopping() != PreStopState::Begun)
            // What an operator says holds until it is taken back, and that is seen only by who looks.
            && self.tracks.iter().all(|track| track.override_state.is_none())
            && self.unconfirmed().is_empty()
    }

    /// Whether an agent goes on watching a container that only the kubelet knows to have ended.
    pub(crate) fn needs_pod_watch(&self) -> bool {
        let watched =
            self.tracks.iter().filter_map(|track| track.report.as_ref()).flat_map(|report| &report.watched_containers);
        watched.filter_map(|name| self.track(name)).any(|other| other.tether != TetherState::Held && !other.has_ended())
    }

    /// How long what has come up may be put off.
    pub(crate) fn urgency(&self) -> Urgency {
        let presses = |track: &ContainerTrack| track.is_gate_waiting() || track.stopping() == PreStopState::Begun;
        if self.tracks.iter().any(presses) { Urgency::Soon } else { Urgency::Later }
    }

    /// How many containers have begun to stop.
    pub(crate) fn stopping_count(&self) -> usize {
        self.tracks.iter().filter(|track| track.stopping() != PreStopState::NotBegun).count()
    }

    /// The containers whose preStop hooks keep them, or may begin to.
    pub(crate) fn pre_stop_containers(&self) -> impl Iterator<Item = &ContainerTrack> {
        let lives = |track: &&ContainerTrack| {
            let stops = track.spec.pre_stop || track.stopping() != PreStopState::NotBegun;
            stops && track.state != State::Waiting && !track.state.has_ended()
        };
        self.tracks.iter().filter(lives)
    }
}

#[cfg(test)]
mod tests;

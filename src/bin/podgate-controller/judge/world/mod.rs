//! What the controller knows of the pod, and what follows from it: each container's state, the phase, the snapshot. No clock and
//! no I/O: evidence goes in, a snapshot comes out.

use crate::input::observe::Facts;
use crate::judge::track::{Folder, Hearing, Tether, Track};
use podgate::core::annotations::Annotations;
use podgate::core::authority::resolve;
use podgate::core::container::{Container, Mode};
use podgate::core::names;
use podgate::core::probe;
use podgate::core::report::Stopping;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::{ENDED, REVISION_MAX, Snapshot};
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
pub(crate) struct World {
    sandbox: SandboxId,
    pub(crate) epoch: String,
    revision: u64,
    /// A board of this very sandbox was found at the start: containers may run whose hooks are long over.
    resumed: bool,
    /// When the first controller of this sandbox was started, by the kubelet's clock: what ended and was started before that,
    /// ended in another one.
    pub(crate) since: Option<SystemTime>,
    api_answered: bool,
    /// The API is not watched: what it said last may be long ago.
    facts_are_old: bool,
    deleting: bool,
    tracks: Vec<Track>,
    published: Option<Snapshot>,
}

impl World {
    /// An empty world. `last_revision` is what the board showed before.
    pub(crate) fn new(sandbox: SandboxId, epoch: String, last_revision: u64, resumed: bool) -> World {
        World {
            sandbox,
            epoch,
            revision: last_revision,
            resumed,
            since: None,
            api_answered: false,
            facts_are_old: false,
            deleting: false,
            tracks: Vec::new(),
            published: None,
        }
    }

    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub(crate) fn track(&self, name: &str) -> Option<&Track> {
        self.tracks.iter().find(|track| track.declared.name == name)
    }

    fn track_mut(&mut self, name: &str) -> Option<&mut Track> {
        self.tracks.iter_mut().find(|track| track.declared.name == name)
    }

    /// Takes in what is declared. What is known of a container that is declared again is kept.
    pub(crate) fn declare(&mut self, containers: Vec<Container>) {
        let mut old = std::mem::take(&mut self.tracks);
        for declared in containers {
            match old.iter().position(|track| track.declared.name == declared.name) {
                Some(at) => {
                    let mut track = old.swap_remove(at);
                    track.declared = declared;
                    self.tracks.push(track);
                }
                None => self.tracks.push(Track::new(declared)),
            }
        }
    }

    /// Takes in what lies in a container's own folder. Gives whether it says anything that counts.
    pub(crate) fn hear_folder(&mut self, name: &str, mut folder: Folder, now: Instant) -> bool {
        folder.report = folder.report.filter(|report| report.is_of(&self.sandbox));
        let Some(track) = self.tracks.iter_mut().find(|track| track.declared.name == name) else { return false };
        let news = track.hear_folder(folder, &self.epoch, now);
        if track.gate_waits() && track.hearing.is_none() {
            self.begin_hearing(name, now);
        }
        news
    }

    /// A gate has reported. It is told so when what it waits for has been looked at since: a state that is at rest may be what
    /// was seen long ago.
    fn begin_hearing(&mut self, name: &str, now: Instant) {
        let waits_for =
            self.track(name).and_then(|track| track.report.as_ref()).map(|report| report.waiting_for.clone());
        let (mut unconfirmed, mut wants_facts) = (BTreeSet::new(), false);
        for until in waits_for.into_iter().flatten() {
            let Some(other) = self.track(&until.container) else { continue };
            match other.probed {
                // What an operator has said may have been taken back since.
                _ if other.forced.is_some() => wants_facts |= self.facts_are_old,
                Some(probe::Word::Passed) => _ = unconfirmed.insert(until.container),
                _ => wants_facts |= self.facts_are_old && other.tether != Tether::Held,
            }
        }
        if let Some(track) = self.track_mut(name) {
            track.hearing = Some(Hearing { since: now, unconfirmed, wants_facts });
        }
    }

    /// The containers that are to be probed once more, for gates that have come since.
    pub(crate) fn unconfirmed(&self) -> BTreeSet<String> {
        let hearings = self.tracks.iter().filter(|track| track.gate_waits()).filter_map(|track| track.hearing.as_ref());
        hearings.flat_map(|hearing| hearing.unconfirmed.iter().cloned()).collect()
    }

    pub(crate) fn stop_watching(&mut self) {
        self.facts_are_old = true;
    }

    /// The API has shown the pod. `trusted` says that the status was made after the controller's own start.
    pub(crate) fn hear_kubelet(&mut self, facts: &Facts, trusted: bool, now: Instant) {
        self.api_answered = true;
        self.deleting |= facts.deleting;
        self.hear_overrides(&facts.annotations);
        if !trusted {
            return;
        }
        self.facts_are_old = false;
        if !self.resumed {
            self.since = self.since.or(facts.own_start);
        }
        for track in &mut self.tracks {
            if let Some(hearing) = &mut track.hearing {
                hearing.wants_facts = false;
            }
            let Some(word) = facts.words.get(&track.declared.name) else { continue };
            let is_of_before = self.since.zip(word.ended_started).is_some_and(|(since, started)| started < since);
            if is_of_before && word.ended.is_some() {
                continue;
            }
            track.hear_kubelet(word, now);
        }
    }

    /// Overrides that an operator has written for this sandbox: `STATE@SANDBOX-ID`.
    pub(crate) fn hear_overrides(&mut self, annotations: &Annotations) {
        for track in &mut self.tracks {
            let value = annotations.get(&format!("{}{}", names::OVERRIDE_PREFIX, track.declared.name));
            track.forced = value.and_then(|value| {
                let (state, sandbox) = value.split_once('@')?;
                let sandbox: SandboxId = sandbox.parse().ok()?;
                // All parts must be known and equal: nothing that a template can carry fits.
                (sandbox == self.sandbox).then(|| state.parse().ok())?
            });
        }
    }

    /// An attempt to probe, begun at `began`, has come to a word.
    pub(crate) fn hear_probe(&mut self, name: &str, word: probe::Word, success: bool, began: Instant) {
        let Some(track) = self.track_mut(name) else { return };
        track.probed = Some(word);
        if success {
            for hearing in self.tracks.iter_mut().filter_map(|track| track.hearing.as_mut()) {
                if hearing.since <= began {
                    hearing.unconfirmed.remove(name);
                }
            }
        }
    }

    pub(crate) fn hear_listening(&mut self, name: &str) {
        if let Some(track) = self.track_mut(name) {
            track.listens = true;
        }
    }

    /// The kubelet's `ready` for a container, once it could be trusted; `None` while it can't.
    pub(crate) fn hear_vetted(&mut self, name: &str, ready: Option<bool>) {
        if let Some(track) = self.track_mut(name) {
            track.vetted = ready;
        }
    }

    /// When [`tick`](World::tick) has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.tracks.iter().filter_map(Track::due).min()
    }

    /// Lets time pass.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.tracks.iter_mut().for_each(|track| track.tick(&self.epoch, now));
    }

    /// Whether `track` may run by now, so that looking at its port says something.
    pub(crate) fn may_run(&self, track: &Track) -> bool {
        if track.ended.is_some() || track.gate_closed() {
            return false;
        }
        let before = || self.tracks.iter().take_while(|other| other.declared.name != track.declared.name);
        track.runs_by_hook_or_kubelet()
            || self.resumed
            || (track.declared.mode != Mode::PostStart
                && before().filter(|other| other.declared.mode == Mode::PostStart).all(|other| other.has_started))
    }

    /// The containers whose probing belongs to an incarnation that is over; each is named once.
    pub(crate) fn take_old_probing(&mut self) -> Vec<String> {
        self.tracks.iter_mut().filter_map(|t| t.take_old_probing().then(|| t.declared.name.clone())).collect()
    }

    /// Draws the conclusions, and gives the snapshot to publish if it differs from the last one.
    pub(crate) fn judge(&mut self) -> Option<&Snapshot> {
        for track in &mut self.tracks {
            track.state = track.forced.unwrap_or_else(|| resolve(&track.evidence(self.resumed)));
            track.was_ready |= track.state == State::Ready;
        }
        self.drop_moot_confirmations();
        self.mark_started();
        let next = self.draw();
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
        let passed = |track: &Track| track.has_passed() && !track.has_ended() && track.forced.is_none();
        let passing: BTreeSet<String> =
            self.tracks.iter().filter(|track| passed(track)).map(|track| track.declared.name.clone()).collect();
        for hearing in self.tracks.iter_mut().filter_map(|track| track.hearing.as_mut()) {
            hearing.unconfirmed.retain(|name| passing.contains(name));
        }
    }

    /// A container has started for the pod's phase when nothing waits in it any more: a hook is over when its container was
    /// Ready, or when a later container runs, since the kubelet starts that only after it.
    fn mark_started(&mut self) {
        let mut later_runs = false;
        for track in self.tracks.iter_mut().rev() {
            let runs = track.state != State::Waiting;
            track.has_started |= match track.declared.mode {
                Mode::PostStart => track.was_ready || later_runs,
                Mode::Entrypoint | Mode::None => runs,
            };
            // A gate that is open says nothing of the hooks before it: nobody waits for it under a freeze.
            later_runs |= runs && track.declared.mode != Mode::Entrypoint && track.runs_by_hook_or_kubelet();
        }
    }

    fn draw(&self) -> Snapshot {
        // Without the API, a container with neither hook nor gate nor port can't be seen to start; nobody waits for it.
        let counts = |track: &&Track| track.declared.mode != Mode::None || self.api_answered;
        let started = self.tracks.iter().any(|track| track.declared.mode != Mode::None)
            && self.tracks.iter().filter(counts).all(|track| track.has_started);
        let phase = match (self.deleting, started) {
            (true, _) => Phase::Terminating,
            (false, true) => Phase::Started,
            (false, false) => Phase::Starting,
        };
        let name = |track: &Track| track.declared.name.clone();
        let stuck = self.tracks.iter().filter_map(|track| {
            if !self.api_answered && track.ended_for_good_as_declared() {
                return Some((name(track), ENDED.to_owned()));
            }
            let reason = track.kubelet.as_ref()?.stuck.clone()?;
            // An end that an earlier incarnation came to is no word on this one.
            (reason != ENDED || track.ended.is_some()).then(|| (name(track), reason))
        });
        let stops = |track: &&Track| track.stopping() != Stopping::No;
        Snapshot {
            sandbox: self.sandbox.clone(),
            epoch: self.epoch.clone(),
            revision: 0,
            phase,
            states: self.tracks.iter().map(|track| (name(track), track.state)).collect(),
            order: self.tracks.iter().map(name).collect(),
            stuck: stuck.collect(),
            heard: self.tracks.iter().filter_map(|track| Some((name(track), track.heard()?.to_owned()))).collect(),
            stopping: self.tracks.iter().filter(stops).map(name).collect(),
            restarts: self.tracks.iter().filter(|t| t.restarts > 0).map(|t| (name(t), t.restarts)).collect(),
        }
    }

    /// Whether nothing more is to be learnt: all have started, and each is Ready or has ended.
    pub(crate) fn is_settled(&self) -> bool {
        // Who has ended and will be started again is not at rest; without the API nobody knows.
        let for_good = |track: &Track| track.kubelet().is_some_and(|word| word.stuck.as_deref() == Some(ENDED));
        let rests = |track: &Track| {
            track.state == State::Ready || track.state.has_ended() && (!self.api_answered || for_good(track))
        };
        self.published.as_ref().is_some_and(|last| last.phase == Phase::Started)
            && self.tracks.iter().all(|track| rests(track) && track.stopping() != Stopping::Begun)
            // What an operator says holds until it is taken back, and that is seen only by who looks.
            && self.tracks.iter().all(|track| track.forced.is_none())
            && self.unconfirmed().is_empty()
    }

    /// Whether an agent goes on watching a container that only the kubelet knows to have ended.
    pub(crate) fn must_watch(&self) -> bool {
        let watched = self.tracks.iter().filter_map(|track| track.report.as_ref()).flat_map(|report| &report.watching);
        watched.filter_map(|name| self.track(name)).any(|other| other.tether != Tether::Held && !other.has_ended())
    }

    /// How long what has come up may be put off.
    pub(crate) fn urgency(&self) -> Urgency {
        let presses = |track: &Track| track.gate_waits() || track.stopping() == Stopping::Begun;
        if self.tracks.iter().any(presses) { Urgency::Soon } else { Urgency::Later }
    }

    /// How many containers have begun to stop.
    pub(crate) fn stopping(&self) -> usize {
        self.tracks.iter().filter(|track| track.stopping() != Stopping::No).count()
    }

    /// The containers whose preStop hooks keep them, or may begin to.
    pub(crate) fn may_stay(&self) -> impl Iterator<Item = &Track> {
        let lives = |track: &&Track| {
            let stops = track.declared.pre_stop || track.stopping() != Stopping::No;
            stops && track.state != State::Waiting && !track.state.has_ended()
        };
        self.tracks.iter().filter(lives)
    }
}

#[cfg(test)]
mod tests;

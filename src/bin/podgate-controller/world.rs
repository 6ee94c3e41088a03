//! What the controller knows of the pod, and what follows from it: each container's state, the phase, the snapshot. No clock and
//! no I/O: evidence goes in, a snapshot comes out.

use crate::observe::{Facts, Word as Kubelet};
use podgate::core::annotations::Annotations;
use podgate::core::authority::{Evidence, Inside, resolve};
use podgate::core::container::{Container, Mode};
use podgate::core::names;
use podgate::core::probe;
use podgate::core::report::{Gate, Report};
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::{ENDED, REVISION_MAX, Snapshot};
use podgate::core::state::{Phase, State};
use std::collections::BTreeMap;

/// Everything known of one pod by one start of the controller.
#[derive(Debug)]
pub(crate) struct World {
    sandbox: SandboxId,
    epoch: String,
    revision: u64,
    /// A board of this very sandbox was found at the start: containers may run whose hooks are long over.
    resumed: bool,
    api_answered: bool,
    deleting: bool,
    tracks: Vec<Track>,
    published: Option<Snapshot>,
}

/// One container.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) declared: Container,
    report: Option<Report>,
    kubelet: Option<Kubelet>,
    /// The incarnation that has ended, and its exit code.
    ended: Option<(String, i32)>,
    /// An incarnation whose end counts no more, since its successor has reported.
    outlived: Option<String>,
    probed: Option<probe::Word>,
    listens: bool,
    vetted: Option<bool>,
    forced: Option<State>,
    was_ready: bool,
    has_started: bool,
    state: State,
}

impl Track {
    fn new(declared: Container) -> Track {
        Track {
            declared,
            report: None,
            kubelet: None,
            ended: None,
            outlived: None,
            probed: None,
            listens: false,
            vetted: None,
            forced: None,
            was_ready: false,
            has_started: false,
            state: State::Waiting,
        }
    }

    /// Its readiness depends on what only the container or the kubelet can run.
    pub(crate) fn needs_kubelet(&self) -> bool {
        self.declared.probes().any(|probe| probe.is_exec())
    }

    fn reports_start(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.started)
    }

    fn gate_closed(&self) -> bool {
        let opened = self.report.as_ref().is_some_and(|report| report.gate == Some(Gate::Opened));
        self.declared.mode == Mode::Entrypoint && !opened
    }

    fn runs_by_kubelet(&self) -> bool {
        self.kubelet.as_ref().is_some_and(|word| word.running.is_some())
    }

    /// Forgets what belonged to an incarnation that is over.
    fn renew(&mut self) {
        (self.probed, self.listens, self.vetted, self.was_ready) = (None, false, None, false);
    }
}

impl World {
    /// An empty world. `last_revision` is what the board showed before.
    pub(crate) fn new(sandbox: SandboxId, epoch: String, last_revision: u64, resumed: bool) -> World {
        World {
            sandbox,
            epoch,
            revision: last_revision,
            resumed,
            api_answered: false,
            deleting: false,
            tracks: Vec::new(),
            published: None,
        }
    }

    pub(crate) fn epoch(&self) -> &str {
        &self.epoch
    }

    pub(crate) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn track(&mut self, name: &str) -> Option<&mut Track> {
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

    /// A container's agent has written a report (or its report is gone). Gives whether it says anything that counts.
    pub(crate) fn hear_report(&mut self, name: &str, report: Option<Report>) -> bool {
        let (sandbox, epoch) = (self.sandbox.clone(), self.epoch.clone());
        let Some(track) = self.track(name) else { return false };
        let before = std::mem::replace(&mut track.report, report.filter(|report| report.counts(&sandbox, &epoch)));
        // Who reports lives: an end that is known already was that of an earlier incarnation, whatever the kubelet shows. It
        // may show that end until the hook which wrote this report has returned.
        if track.report.as_ref().is_some_and(|report| report.exit_code.is_none())
            && let Some((id, _)) = track.ended.take()
        {
            track.outlived = Some(id);
            track.renew();
            return true;
        }
        track.report.is_some() && track.report != before
    }

    /// The API has shown the pod. `trusted` says that the status was made after the controller's own start.
    pub(crate) fn hear_kubelet(&mut self, facts: &Facts, trusted: bool) {
        self.api_answered = true;
        self.deleting |= facts.deleting;
        self.hear_overrides(&facts.annotations);
        if !trusted {
            return;
        }
        for track in &mut self.tracks {
            let Some(word) = facts.words.get(&track.declared.name) else { continue };
            let before = track.kubelet.replace(word.clone());
            match (&word.ended, &word.running) {
                (Some((id, _)), _) if track.outlived.as_deref() == Some(id) => {}
                (Some(end), _) if track.ended.as_ref() != Some(end) => {
                    track.ended = Some(end.clone());
                    track.report = None;
                    track.renew();
                }
                (None, Some(id)) => {
                    let is_new = before.and_then(|word| word.running).is_some_and(|old| old != *id);
                    if track.ended.take().is_some() || is_new {
                        track.renew();
                    }
                }
                _ => {}
            }
        }
    }

    /// Overrides that an operator has written for this sandbox: `STATE@SANDBOX-ID`.
    pub(crate) fn hear_overrides(&mut self, annotations: &Annotations) {
        for track in &mut self.tracks {
            let value = annotations.get(&format!("{}{}", names::OVERRIDE_PREFIX, track.declared.name));
            let forced = value.and_then(|value| {
                let (state, sandbox) = value.split_once('@')?;
                let sandbox: SandboxId = sandbox.parse().ok()?;
                // All parts must be known and equal: nothing that a template can carry fits.
                (sandbox == self.sandbox).then(|| state.parse().ok())?
            });
            track.forced = forced;
        }
    }

    /// Probing has come to a word.
    pub(crate) fn hear_probe(&mut self, name: &str, word: probe::Word) {
        if let Some(track) = self.track(name) {
            track.probed = Some(word);
        }
    }

    /// Something listens on the container's port.
    pub(crate) fn hear_listening(&mut self, name: &str) {
        if let Some(track) = self.track(name) {
            track.listens = true;
        }
    }

    /// The kubelet's `ready` for a container, once it could be trusted; `None` while it can't.
    pub(crate) fn hear_vetted(&mut self, name: &str, ready: Option<bool>) {
        if let Some(track) = self.track(name) {
            track.vetted = ready;
        }
    }

    /// Whether `track` may run by now, so that looking at its port says something.
    pub(crate) fn may_run(&self, track: &Track) -> bool {
        if track.ended.is_some() || track.gate_closed() {
            return false;
        }
        let before = || self.tracks.iter().take_while(|other| other.declared.name != track.declared.name);
        track.reports_start()
            || track.runs_by_kubelet()
            || self.resumed
            || (track.declared.mode != Mode::PostStart
                && before().filter(|other| other.declared.mode == Mode::PostStart).all(|other| other.has_started))
    }

    fn evidence(&self, track: &Track) -> Evidence {
        let answers = track.listens || track.probed.is_some_and(|word| word != probe::Word::NotYet);
        // A hook reports before anything can be Ready; only where hooks may be over already is an answer enough. A container
        // with neither hook nor gate can show itself by no other sign under a frozen kubelet.
        let by_answer = answers && (self.resumed || track.declared.mode != Mode::PostStart);
        let has_outside = track.declared.probes().any(|probe| !probe.is_exec());
        Evidence {
            exit_code: track.ended.as_ref().map(|(_, code)| *code),
            gate_closed: track.gate_closed(),
            started: track.reports_start() || track.runs_by_kubelet() || by_answer,
            probed: has_outside.then(|| track.probed.unwrap_or(probe::Word::NotYet)),
            exec: track.needs_kubelet().then(|| Inside {
                reported: track.report.as_ref().is_some_and(|report| report.check_passed),
                kubelet_ready: track.vetted,
            }),
            was_ready: track.was_ready,
        }
    }

    /// Draws the conclusions, and gives the snapshot to publish if it differs from the last one.
    pub(crate) fn judge(&mut self) -> Option<&Snapshot> {
        let states: Vec<State> =
            self.tracks.iter().map(|track| track.forced.unwrap_or_else(|| resolve(&self.evidence(track)))).collect();
        for (track, state) in self.tracks.iter_mut().zip(states) {
            track.state = state;
            track.was_ready |= state == State::Ready;
        }
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
            let reason = track.kubelet.as_ref()?.stuck.clone()?;
            // An end that an earlier incarnation came to is no word on this one.
            (reason != ENDED || track.ended.is_some()).then(|| (name(track), reason))
        });
        Snapshot {
            sandbox: self.sandbox.clone(),
            epoch: self.epoch.clone(),
            revision: 0,
            phase,
            states: self.tracks.iter().map(|track| (name(track), track.state)).collect::<BTreeMap<_, _>>(),
            order: self.tracks.iter().map(name).collect(),
            stuck: stuck.collect(),
        }
    }

    /// Whether nothing more is to be learnt: all have started, and each is Ready or has ended.
    pub(crate) fn is_settled(&self) -> bool {
        let rests = |track: &Track| track.state == State::Ready || track.state.has_ended();
        self.published.as_ref().is_some_and(|last| last.phase == Phase::Started) && self.tracks.iter().all(rests)
    }
}

impl Track {
    fn runs_by_hook_or_kubelet(&self) -> bool {
        self.reports_start() || self.runs_by_kubelet()
    }

    /// What is published of it.
    #[cfg(test)]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Its incarnation, by the kubelet's word.
    pub(crate) fn kubelet(&self) -> Option<&Kubelet> {
        self.kubelet.as_ref()
    }

    /// Whether its end is known.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;

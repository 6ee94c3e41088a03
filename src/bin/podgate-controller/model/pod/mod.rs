//! The sidecar's model of the Pod. The model collects evidence and derives each container's state, the stage and the
//! snapshot. It uses no clock and does no I/O.

mod confirmations;
mod hold;

use crate::input::pod_facts::PodFacts;
use crate::input::report_file::DirectoryState;
use crate::model::track::ContainerTrack;
use podgate::core::annotations::Annotations;
use podgate::core::container::{Container, Mode};
use podgate::core::evidence::{KubeletReady, resolve_state};
use podgate::core::names;
use podgate::core::probe::ProbeVerdict;
use podgate::core::report::{ALL_CONTAINERS, PreStopState, Report};
use podgate::core::restart::RestartDecision;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::{REASON_ENDED_FOR_GOOD, REVISION_MAX, Snapshot};
use podgate::core::state::{Stage, State};
use podgate::core::until::{WaitCondition, WantedState};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Instant, SystemTime};

/// One run of the sidecar.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) id: String,
    /// True if the board of an earlier epoch in this sandbox was found. Containers may then already be running, and
    /// their hooks may have finished.
    pub(crate) is_resumed: bool,
}

/// Tracks all containers of the Pod during one epoch.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the Pod")]
pub(crate) struct PodModel {
    sandbox: SandboxId,
    pub(crate) epoch: Epoch,
    revision: u64,
    /// Start time of the sidecar's first run in this sandbox, by the kubelet's clock. Ended incarnations with an
    /// earlier start time belong to an earlier sandbox.
    pub(crate) sandbox_started_at: Option<SystemTime>,
    has_api_answered: bool,
    /// True after the first current status of the Pod.
    has_status: bool,
    /// True if the sidecar does not use the API, or a watch of the Pod has failed.
    pub(crate) is_blind: bool,
    pub(crate) pod_ip: Option<IpAddr>,
    /// True if the Pod is not watched, so the last facts from the API may be outdated.
    pub(crate) is_pod_stale: bool,
    is_deleting: bool,
    pub(crate) tracks: Vec<ContainerTrack>,
    pub(crate) published: Option<Snapshot>,
    /// Number of patches so far that release held containers or make the kubelet repeat a probe.
    sync_request_count: u64,
}

impl PodModel {
    /// Creates a model without containers. `last_revision` is the revision of the previous board.
    pub(crate) fn new(sandbox: SandboxId, epoch: Epoch, last_revision: u64) -> PodModel {
        PodModel { sandbox, epoch, revision: last_revision, ..PodModel::default() }
    }

    pub(crate) fn track(&self, name: &str) -> Option<&ContainerTrack> {
        self.tracks.iter().find(|track| track.spec.name == name)
    }

    fn track_mut(&mut self, name: &str) -> Option<&mut ContainerTrack> {
        self.tracks.iter_mut().find(|track| track.spec.name == name)
    }

    /// Sets the declared containers. Keeps the evidence for containers that were declared before.
    pub(crate) fn set_containers(&mut self, containers: Vec<Container>) {
        let mut old = std::mem::take(&mut self.tracks);
        for declared in containers {
            match old.iter().position(|track| track.spec.name == declared.name) {
                Some(at) => {
                    let mut track = old.swap_remove(at);
                    track.spec = declared;
                    self.tracks.push(track);
                }
                None => self.tracks.push(ContainerTrack::new(declared, self.epoch.is_resumed)),
            }
        }
    }

    /// Stores the content of a container's directory. Returns true if it has changed and counts as evidence.
    pub(crate) fn on_report(&mut self, name: &str, mut directory: DirectoryState, now: Instant) -> bool {
        let Some(track) = self.tracks.iter_mut().find(|t| t.spec.name == name) else { return false };
        let counts = |report: &Report| {
            report.is_from_sandbox(&self.sandbox)
                || track.restart_decision_for(report.exit_code) == RestartDecision::Final
        };
        directory.report = directory.report.filter(counts);
        track.on_report(directory, &self.epoch.id, now)
    }

    /// Stores the facts of the Pod from the API. Ignores the Pod's status if it may be outdated.
    pub(crate) fn on_pod_update(&mut self, facts: &PodFacts, is_status_current: bool, now: Instant) {
        self.has_api_answered = true;
        self.is_deleting |= facts.is_deleting;
        self.on_overrides(&facts.annotations);
        if !is_status_current {
            return;
        }
        let was_stale = std::mem::take(&mut self.is_pod_stale);
        let is_first = !std::mem::replace(&mut self.has_status, true);
        if !self.epoch.is_resumed {
            self.sandbox_started_at = self.sandbox_started_at.or(facts.own_started_at);
        }
        self.confirmations().for_each(|one| one.needs_pod_update = false);
        for track in &mut self.tracks {
            let Some(status) = facts.kubelet_statuses.get(&track.spec.name) else { continue };
            let starts = self.sandbox_started_at.zip(status.ended_run_started_at);
            let is_from_earlier_sandbox = starts.is_some_and(|(since, started)| started < since);
            // The first status shows all ends of earlier sandboxes. In a later status, only a clock that was set back
            // can make an end look so old. The kubelet does not start a container again that has ended for good.
            let is_final = status.stuck_reason.as_deref() == Some(REASON_ENDED_FOR_GOOD);
            let ended = status.termination.as_ref().filter(|_| is_first && is_from_earlier_sandbox && !is_final);
            ended.into_iter().for_each(|(id, _)| track.ignore_end_of(id));
            // After an idle time, the agent's report may be old. A "not ready" of the kubelet counts at once. A wrapped
            // probe reports each result itself.
            if was_stale && !status.is_ready && track.spec.uses_kubelet_ready() {
                track.answers.kubelet = KubeletReady { current: Some(false), was_ready: track.answers.was_ready };
            }
            track.on_kubelet_status(status, now);
        }
    }

    /// Applies the user's overrides for this sandbox: annotations with the value `STATE@SANDBOX-ID`.
    pub(crate) fn on_overrides(&mut self, annotations: &Annotations) {
        for track in &mut self.tracks {
            let value = annotations.get(&format!("{}{}", names::OVERRIDE_KEY_PREFIX, track.spec.name));
            track.override_state = value.and_then(|value| {
                let (state, sandbox) = value.split_once('@')?;
                let sandbox: SandboxId = sandbox.parse().ok()?;
                // All parts of the id must match, so that an override in a Pod template never applies.
                (sandbox == self.sandbox && self.sandbox.is_unique()).then(|| state.parse().ok())?
            });
        }
    }

    /// Stores the verdict after a probe attempt that began at `began`.
    pub(crate) fn on_probe(&mut self, name: &str, verdict: ProbeVerdict, success: bool, began: Instant) {
        let epoch = self.epoch.id.clone();
        let Some(track) = self.track_mut(name) else { return };
        track.on_probe(verdict, success, began, &epoch);
        if success {
            self.confirmations().filter(|one| one.since <= began).for_each(|one| _ = one.to_confirm.remove(name));
        }
    }

    pub(crate) fn on_listening(&mut self, name: &str) {
        if let Some(track) = self.track_mut(name) {
            track.answers.is_listening = true;
        }
    }

    /// Stores the kubelet's `ready` status of a container. `ready` is `None` while the status cannot be trusted.
    pub(crate) fn on_kubelet_ready(&mut self, name: &str, ready: Option<bool>) {
        if let Some(track) = self.track_mut(name) {
            let kubelet = &mut track.answers.kubelet;
            (kubelet.current, kubelet.was_ready) = (ready, kubelet.was_ready || ready == Some(true));
        }
    }

    /// Returns the time for the next [`apply_time_limits`](PodModel::apply_time_limits); `None` if no time limit is
    /// pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        let holds = self.tracks.iter().filter_map(ContainerTrack::hold_due);
        let probes = self.tracks.iter().filter_map(ContainerTrack::lost_first_probe_due);
        self.tracks.iter().filter_map(ContainerTrack::untethered_due).chain(holds).chain(probes).min()
    }

    /// Applies the time limits that have expired at `now`.
    pub(crate) fn apply_time_limits(&mut self, now: Instant) {
        for track in &mut self.tracks {
            track.apply_untethered_limit(&self.epoch.id, now);
            track.apply_hold_time_limit(now);
        }
    }

    /// Returns true if the container may be running, so that a probe can succeed.
    pub(crate) fn may_be_running(&self, track: &ContainerTrack) -> bool {
        if track.has_ended() || track.is_gate_closed() {
            return track.may_be_untethered();
        }
        let before = || self.tracks.iter().take_while(|other| other.spec.name != track.spec.name);
        track.is_known_running()
            || track.is_resumed
            || (track.spec.mode != Mode::PostStart
                && before().filter(|other| other.spec.mode == Mode::PostStart).all(|other| other.has_started))
    }

    /// Determines all states, and which gates may open. Returns the new snapshot if it differs from the published one.
    pub(crate) fn update_snapshot(&mut self, now: Instant) -> Option<&Snapshot> {
        for track in &mut self.tracks {
            let observed = || track.hold_failure_or(resolve_state(&track.evidence()));
            track.state = track.override_state.unwrap_or_else(observed);
            track.answers.was_ready |= track.state == State::Ready;
        }
        self.mark_started();
        let mut next = self.build_snapshot();
        self.update_confirmations(&next, now);
        let ticket = |track: &ContainerTrack| Some((track.spec.name.clone(), track.confirmed_ticket()?.to_owned()));
        next.confirmed_tickets = self.tracks.iter().filter_map(ticket).collect();
        if self.published.as_ref().is_some_and(|last| Snapshot { revision: last.revision, ..next.clone() } == *last) {
            return None;
        }
        // Readers reject a revision above REVISION_MAX. It takes 2^53 changes to reach this limit.
        self.revision = (self.revision + 1).min(REVISION_MAX);
        self.published = Some(Snapshot { revision: self.revision, ..next });
        self.published.as_ref()
    }

    /// Marks the containers that count as started for the Pod's stage: those in which neither a gate nor a hook waits.
    /// A hook has finished if its container was Ready or a later container runs: the kubelet starts later containers
    /// only after the hook.
    fn mark_started(&mut self) {
        let mut later_runs = false;
        for track in self.tracks.iter_mut().rev() {
            let runs = !track.state.is_before_start();
            track.has_started |= match track.spec.mode {
                Mode::PostStart => track.answers.was_ready || later_runs,
                Mode::Entrypoint | Mode::Hold | Mode::None => runs,
            };
            // An open gate is no evidence that the hooks of earlier containers have finished.
            later_runs |= runs && track.spec.mode != Mode::Entrypoint && track.is_known_running();
        }
    }

    fn build_snapshot(&self) -> Snapshot {
        // Do not wait for a container whose start the sidecar cannot see.
        let is_unseen = |spec: &Container, want| spec.needs_kubelet_status(want) && !self.has_api_answered;
        let counts =
            |track: &&ContainerTrack| track.spec.mode != Mode::None || !is_unseen(&track.spec, WantedState::Started);
        let started = self.tracks.iter().any(|track| track.spec.mode != Mode::None)
            && self.tracks.iter().filter(counts).all(|track| track.has_started);
        let stage = match (self.is_deleting, started) {
            (true, _) => Stage::Terminating,
            (false, true) => Stage::Started,
            (false, false) => Stage::Starting,
        };
        let states: Vec<_> = self.tracks.iter().map(|track| (track.spec.name.as_str(), track.state)).collect();
        let name = |track: &ContainerTrack| track.spec.name.clone();
        let stuck = self.tracks.iter().filter_map(|track| {
            if !self.has_api_answered && track.restart_decision() == Some(RestartDecision::Final) {
                return Some((name(track), REASON_ENDED_FOR_GOOD.to_owned()));
            }
            let reason = track.kubelet_status.as_ref()?.stuck_reason.clone()?;
            // Ignore the termination of an earlier incarnation.
            (reason != REASON_ENDED_FOR_GOOD || track.has_ended()).then(|| (name(track), reason))
        });
        let startup = |track: &ContainerTrack| Some((name(track), track.startup_result()?));
        let conditions = self.tracks.iter().filter(|_| self.is_blind).flat_map(|track| &track.spec.until);
        let unseen = |until: &&WaitCondition| {
            self.track(&until.container).is_some_and(|other| is_unseen(&other.spec, until.want))
        };
        let will_restart = |track: &&ContainerTrack| track.restart_decision() == Some(RestartDecision::Restarts);
        let stops = |track: &&ContainerTrack| track.pre_stop_state() != PreStopState::NotBegun;
        Snapshot {
            stage,
            stuck: stuck.collect(),
            restarting: self.tracks.iter().filter(will_restart).map(name).collect(),
            unseen: conditions.filter(unseen).map(WaitCondition::to_string).collect(),
            startup: self.tracks.iter().filter_map(startup).collect(),
            pod_ip: self.pod_ip.map(|ip| ip.to_string().into()),
            stopping: self.tracks.iter().filter(stops).map(name).collect(),
            restarts: self.tracks.iter().filter(|t| t.restarts > 0).map(|t| (name(t), t.restarts)).collect(),
            ..Snapshot::new(self.sandbox.clone(), &self.epoch.id, &states)
        }
    }

    /// Returns true if the sidecar can go idle: all containers have started, and each is Ready or has ended for good.
    pub(crate) fn may_idle(&self) -> bool {
        // A container that the kubelet will restart keeps the sidecar awake. Only the API shows if an end is final.
        let is_settled = |track: &ContainerTrack| {
            (track.state == State::Ready || track.state.has_ended() && (!self.has_api_answered || track.kubelet_shows_final_end()))
                && track.pre_stop_state() != PreStopState::Begun
                // A gate of hold mode closes when a condition is no longer met, so the sidecar must stay awake.
                && track.spec.mode != Mode::Hold
                // The sidecar detects the removal of an override only while it is awake.
                && track.override_state.is_none()
        };
        self.published.as_ref().is_some_and(|last| last.stage == Stage::Started)
            && self.tracks.iter().all(is_settled)
            && self.containers_to_confirm().is_empty()
    }

    /// Returns true if an idle sidecar must watch the Pod: for `quit`, or for an agent that watches a container
    /// whose end only the kubelet can report.
    pub(crate) fn needs_watch_while_idle(&self) -> bool {
        let reports = self.tracks.iter().filter_map(ContainerTrack::report);
        let watched: BTreeSet<&str> =
            reports.flat_map(|report| &report.watched_containers).map(String::as_str).collect();
        let is_watched = |name: &str| watched.contains(name) || watched.contains(ALL_CONTAINERS);
        let is_unseen = |other: &ContainerTrack| !other.is_tethered() && !other.has_ended();
        self.tracks.iter().any(|other| other.spec.quit.is_some() || is_watched(&other.spec.name) && is_unseen(other))
    }

    /// Returns the containers that must exit now, because all other containers have ended for good.
    pub(crate) fn last_containers_to_quit(&self) -> impl Iterator<Item = &ContainerTrack> {
        // Native sidecars end later, so ignore them. Trust only the kubelet: a tether can be released too early.
        let is_over = |track: &ContainerTrack| {
            track.spec.restart_policy.as_deref() == Some("Always") || track.kubelet_shows_final_end()
        };
        let is_last = |track: &ContainerTrack| track.spec.quit.is_some();
        let is_due = !self.is_deleting && self.tracks.iter().all(|track| is_last(track) || is_over(track));
        let runs = |track: &ContainerTrack| track.running_container_id().is_some() && !track.is_gate_closed();
        self.tracks.iter().filter(move |track| is_due && is_last(track) && runs(track))
    }
}

#[cfg(test)]
mod tests;

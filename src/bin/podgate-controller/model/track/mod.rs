//! The evidence for one container. No clock and no I/O: every piece of evidence comes with its time.

mod folder;
mod kubelet;

use crate::input::pod_facts::KubeletStatus as Kubelet;
use podgate::core::container::{Container, Mode};
use podgate::core::evidence::{Evidence, ExecEvidence};
use podgate::core::probe;
use podgate::core::report::{GateState, PreStopState, Report};
use podgate::core::state::State;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A tether released within this time after the gate has opened was closed by a program that closes inherited
/// descriptors.
const EARLY_DROP_WINDOW: Duration = Duration::from_secs(2);

/// Tracks one container.
#[derive(Debug)]
pub(crate) struct ContainerTrack {
    pub(crate) spec: Container,
    /// The report in the folder, even if it does not count.
    raw_report: Option<Report>,
    /// The same report, if it counts for the current incarnation.
    pub(super) report: Option<Report>,
    pub(super) tether: TetherState,
    /// Time when the gate was first found open.
    opened_at: Option<Instant>,
    /// Ticket of the gate's current start.
    ticket: Option<String>,
    /// Checks that are still needed before the waiting gate is acknowledged.
    pub(super) pending_ack: Option<PendingAck>,
    pub(super) kubelet_status: Option<Kubelet>,
    pub(super) termination: Option<Termination>,
    /// Container id of an earlier incarnation. Its end is ignored, because its successor has reported.
    superseded_id: Option<String>,
    /// Since when, and under which id, the kubelet shows it running although its report does not count and its tether
    /// is free.
    untethered_since: Option<(Instant, String)>,
    pub(super) probe_verdict: Option<probe::ProbeVerdict>,
    pub(super) is_listening: bool,
    pub(super) kubelet_ready: Option<bool>,
    pub(super) override_state: Option<State>,
    pub(super) was_ready: bool,
    pub(super) has_started: bool,
    pub(super) state: State,
    pub(super) restarts: u64,
    /// The running probe belongs to an earlier incarnation.
    is_probing_stale: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TetherState {
    /// No process holds it.
    Free,
    /// A process of the container holds it, so the container runs.
    Held,
    /// The program closed it and still runs. Only the kubelet knows when it ends.
    Untethered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) container_id: Option<String>,
    pub(crate) exit_code: Option<i32>,
    /// Known from the tether or the agent's report, not from the kubelet.
    is_agent_evidence: bool,
}

/// A waiting gate that is not acknowledged yet, and the checks that are still needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingAck {
    pub(super) since: Instant,
    /// Containers that must pass one more probe.
    pub(super) unconfirmed: BTreeSet<String>,
    /// The Pod from the API is stale, so an update is needed.
    pub(super) needs_pod_update: bool,
}

/// Content of a container's folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FolderState {
    pub(crate) report: Option<Report>,
    /// The report file was replaced.
    pub(crate) is_rewritten: bool,
    pub(crate) is_tether_held: bool,
    /// A socket listens on the container's port. Checked only after the tether was released.
    pub(crate) is_listening: bool,
}

impl ContainerTrack {
    pub(super) fn new(declared: Container) -> ContainerTrack {
        ContainerTrack {
            spec: declared,
            raw_report: None,
            report: None,
            tether: TetherState::Free,
            opened_at: None,
            ticket: None,
            pending_ack: None,
            kubelet_status: None,
            termination: None,
            superseded_id: None,
            untethered_since: None,
            probe_verdict: None,
            is_listening: false,
            kubelet_ready: None,
            override_state: None,
            was_ready: false,
            has_started: false,
            state: State::Waiting,
            restarts: 0,
            is_probing_stale: false,
        }
    }

    /// Returns true if it has an `exec` probe, which only the container or the kubelet can run.
    pub(crate) fn has_exec_probe(&self) -> bool {
        self.spec.probes().any(|probe| probe.is_exec())
    }

    pub(super) fn has_reported_start(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.started)
    }

    pub(super) fn is_gate_closed(&self) -> bool {
        self.spec.mode == Mode::Entrypoint && !self.report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Returns true if its gate has reported to this controller that it waits.
    pub(super) fn is_gate_waiting(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.gate == Some(GateState::Waiting))
    }

    pub(super) fn is_running_per_kubelet(&self) -> bool {
        self.kubelet_status.as_ref().is_some_and(|status| status.running_id.is_some())
    }

    pub(super) fn is_known_running(&self) -> bool {
        self.has_reported_start() || self.is_running_per_kubelet()
    }

    pub(crate) fn kubelet_status(&self) -> Option<&Kubelet> {
        self.kubelet_status.as_ref()
    }

    /// Returns true if this incarnation passes its probes.
    pub(crate) fn has_passed_probes(&self) -> bool {
        self.probe_verdict == Some(probe::ProbeVerdict::Passed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.termination.is_some()
    }

    /// Returns true if its restart policy rules out another start. Used when the API has not answered.
    pub(super) fn has_ended_for_good(&self) -> bool {
        let Some(end) = &self.termination else { return false };
        match self.spec.restart_policy.as_deref() {
            Some("Never") => true,
            Some("OnFailure") => end.exit_code == Some(0),
            _ => false,
        }
    }

    /// Returns the ticket of its gate if that waits and is acknowledged.
    pub(super) fn acked_ticket(&self) -> Option<&str> {
        let is_done = self.pending_ack.as_ref().is_some_and(|ack| ack.unconfirmed.is_empty() && !ack.needs_pod_update);
        self.ticket.as_deref().filter(|_| is_done && self.is_gate_waiting())
    }

    pub(crate) fn stopping(&self) -> PreStopState {
        self.report.as_ref().map_or(PreStopState::NotBegun, |report| report.stopping)
    }

    /// Returns true if a release of its tether now would count as its end.
    pub(crate) fn ends_on_tether_drop(&self) -> bool {
        self.tether == TetherState::Held && self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Returns true once if its probing must be restarted.
    pub(super) fn take_stale_probing(&mut self) -> bool {
        std::mem::take(&mut self.is_probing_stale)
    }

    /// Forgets the evidence of an earlier incarnation.
    fn reset_evidence(&mut self) {
        (self.probe_verdict, self.is_listening, self.kubelet_ready, self.was_ready) = (None, false, None, false);
        self.is_probing_stale = true;
    }

    /// Counts a new incarnation and forgets the evidence of the last one.
    fn note_restart(&mut self) {
        self.restarts += 1;
        self.reset_evidence();
        for report in [&mut self.report, &mut self.raw_report].into_iter().flatten() {
            report.stopping = PreStopState::NotBegun;
        }
    }

    fn start_new_incarnation(&mut self) {
        let id = self.termination.take().and_then(|end| end.container_id).or_else(|| self.running_id());
        self.superseded_id = id;
        self.note_restart();
    }

    fn running_id(&self) -> Option<String> {
        self.kubelet_status.as_ref().and_then(|status| status.running_id.clone())
    }

    fn mark_ended(&mut self, end: Termination) {
        self.termination = Some(end);
        self.report = None;
        self.reset_evidence();
    }

    pub(super) fn evidence(&self, resumed: bool) -> Evidence {
        let answers =
            self.is_listening || self.probe_verdict.is_some_and(|verdict| verdict != probe::ProbeVerdict::NotYet);
        // A hook always reports before its container can be Ready. So an answer alone counts only if the hook may
        // already have finished, or there is no hook. Under a frozen kubelet, a container with neither hook nor gate
        // gives no other evidence.
        let started_by_answer = answers && (resumed || self.spec.mode != Mode::PostStart);
        let has_outside_probe = self.spec.probes().any(|probe| !probe.is_exec());
        Evidence {
            // The exit code may arrive later. Until then, treat the end as a failure.
            exit_code: self.termination.as_ref().map(|end| end.exit_code.unwrap_or(-1)),
            gate_closed: self.is_gate_closed(),
            started: self.is_known_running() || started_by_answer,
            probe_verdict: has_outside_probe.then(|| self.probe_verdict.unwrap_or(probe::ProbeVerdict::NotYet)),
            exec_probes: self.has_exec_probe().then(|| ExecEvidence {
                reported_passed: self.report.as_ref().is_some_and(|report| report.check_passed),
                kubelet_ready: self.kubelet_ready,
            }),
            was_ready: self.was_ready,
        }
    }
}

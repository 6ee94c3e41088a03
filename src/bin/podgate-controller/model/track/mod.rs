//! Evidence for one container. The module uses no clock and does no I/O: callers pass the time of each piece of
//! evidence.

mod folder;
mod kubelet;

use crate::input::pod_facts::KubeletStatus as Kubelet;
use crate::model::hold_gate::HoldGate;
use crate::model::pending_ack::PendingAck;
use podgate::core::container::{Container, Mode};
use podgate::core::evidence::{Evidence, ExecEvidence};
use podgate::core::probe;
use podgate::core::report::{GateState, PreStopState, Report};
use podgate::core::state::State;
use std::time::{Duration, Instant};

/// Time after the opening of a gate in which a released tether is not an end. Some programs close inherited descriptors
/// at their start.
const EARLY_DROP_WINDOW: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct ContainerTrack {
    pub(crate) spec: Container,
    /// Report from the container's folder, even if the report does not count.
    raw_report: Option<Report>,
    /// Report from `raw_report`; `None` if that report does not belong to the current incarnation.
    pub(super) report: Option<Report>,
    pub(super) tether: TetherState,
    /// Time when the gate was first found open.
    opened_at: Option<Instant>,
    /// Ticket of the gate's current start.
    ticket: Option<String>,
    /// Checks that are still needed before the waiting gate is acknowledged.
    pub(super) pending_ack: Option<PendingAck>,
    pub(super) kubelet_status: Option<Kubelet>,
    /// Gate at the kubelet, in hold mode.
    pub(super) hold: Option<HoldGate>,
    /// Time at which the last end was observed.
    pub(super) ended_at: Option<Instant>,
    pub(super) termination: Option<Termination>,
    /// Container id of an earlier incarnation. The end of that incarnation is ignored, because a later incarnation has
    /// reported.
    superseded_id: Option<String>,
    /// Time since which the kubelet shows the container running, and the container id. Set only while the report does
    /// not count and the tether is free.
    untethered_since: Option<(Instant, String)>,
    pub(super) probe_verdict: Option<probe::ProbeVerdict>,
    pub(super) is_listening: bool,
    pub(super) kubelet_ready: Option<bool>,
    pub(super) override_state: Option<State>,
    pub(super) was_ready: bool,
    pub(super) has_started: bool,
    pub(super) state: State,
    pub(super) restarts: u64,
    /// True if the running probe belongs to an earlier incarnation.
    is_probing_stale: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TetherState {
    /// No process holds the tether.
    Free,
    /// A process of the container holds the tether, so the container runs.
    Held,
    /// The program has closed the tether and still runs. Only the kubelet can report the program's end.
    Untethered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) container_id: Option<String>,
    pub(crate) exit_code: Option<i32>,
    /// True if the end was derived from the tether or the agent's report, not from the kubelet.
    is_agent_evidence: bool,
}

/// Content of a container's folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FolderState {
    pub(crate) report: Option<Report>,
    /// True if the report file was replaced since the last check.
    pub(crate) is_rewritten: bool,
    pub(crate) is_tether_held: bool,
    /// True if a socket listens on the container's port. Checked only after a release of the tether.
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
            hold: None,
            ended_at: None,
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

    /// Returns true if the container has an `exec` probe, which only the agent or the kubelet can run.
    pub(crate) fn has_exec_probe(&self) -> bool {
        self.spec.probes().any(|probe| probe.is_exec())
    }

    pub(super) fn has_reported_start(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.started)
    }

    pub(super) fn is_gate_closed(&self) -> bool {
        match self.spec.mode {
            Mode::Entrypoint => !self.report.as_ref().is_some_and(Report::has_gate_opened),
            // The gate may close again while the container runs.
            Mode::Hold => !self.is_running_per_kubelet() && !self.hold.as_ref().is_some_and(|gate| gate.is_open),
            Mode::PostStart | Mode::None => false,
        }
    }

    /// Returns true if the container's gate has reported in this epoch that the gate waits.
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

    /// Returns true if the container's restart policy rules out another start. Used while the API has not answered.
    pub(super) fn has_ended_for_good(&self) -> bool {
        let Some(end) = &self.termination else { return false };
        match self.spec.restart_policy.as_deref() {
            Some("Never") => true,
            Some("OnFailure") => end.exit_code == Some(0),
            _ => false,
        }
    }

    /// Returns the ticket of the container's gate if the gate waits and is acknowledged.
    pub(super) fn acked_ticket(&self) -> Option<&str> {
        let is_done = self.pending_ack.as_ref().is_some_and(PendingAck::is_done);
        self.ticket.as_deref().filter(|_| is_done && self.is_gate_waiting())
    }

    pub(crate) fn stopping(&self) -> PreStopState {
        self.report.as_ref().map_or(PreStopState::NotBegun, |report| report.stopping)
    }

    /// Returns true if a release of the tether at this moment would count as the container's end.
    pub(crate) fn ends_on_tether_drop(&self) -> bool {
        self.tether == TetherState::Held && self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Returns true if probing must be restarted, and clears this flag.
    pub(super) fn take_stale_probing(&mut self) -> bool {
        std::mem::take(&mut self.is_probing_stale)
    }

    /// Clears the evidence of the previous incarnation.
    fn reset_evidence(&mut self) {
        (self.probe_verdict, self.is_listening, self.kubelet_ready, self.was_ready) = (None, false, None, false);
        self.is_probing_stale = true;
    }

    /// Counts a new incarnation and clears the evidence of the previous one.
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
        // A hook always reports before its container can be Ready. An answer alone therefore counts only if the hook
        // may already have finished or the container has no hook. While the kubelet is frozen, a container with neither
        // hook nor gate gives no other evidence.
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

//! One container: what has been heard of it, and what that makes of it. Pure: evidence goes in, with the time at which it came.

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

/// A tether that drops so soon after the gate has opened was let go by a program that closes what it inherits.
const EARLY_DROP_WINDOW: Duration = Duration::from_secs(2);

/// What is known of one container.
#[derive(Debug)]
pub(crate) struct ContainerTrack {
    pub(crate) spec: Container,
    /// As it lies in the folder, whatever it is worth.
    raw_report: Option<Report>,
    /// The same, if it counts.
    pub(super) report: Option<Report>,
    pub(super) tether: TetherState,
    /// When its gate was first seen open.
    opened_at: Option<Instant>,
    /// Which start of its gate this is.
    ticket: Option<String>,
    /// What its gate still waits for before it is heard.
    pub(super) pending_ack: Option<PendingAck>,
    pub(super) kubelet_status: Option<Kubelet>,
    pub(super) termination: Option<Termination>,
    /// An incarnation whose end counts no more, since its successor has reported.
    superseded_id: Option<String>,
    /// Since when the kubelet shows it running though its report is of an earlier epoch and its tether is gone.
    untethered_since: Option<(Instant, String)>,
    pub(super) probe_verdict: Option<probe::ProbeVerdict>,
    pub(super) is_listening: bool,
    pub(super) kubelet_ready: Option<bool>,
    pub(super) override_state: Option<State>,
    pub(super) was_ready: bool,
    pub(super) has_started: bool,
    pub(super) state: State,
    pub(super) restarts: u64,
    /// Its probing belongs to an incarnation that is over.
    is_probing_stale: bool,
}

/// The lock that a container's process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TetherState {
    /// Nobody holds it.
    Free,
    /// Somebody of the container does, so it lives.
    Held,
    /// Its program has let go of it and runs: only the kubelet knows when it ends.
    Untethered,
}

/// How a container has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) container_id: Option<String>,
    pub(crate) exit_code: Option<i32>,
    /// It was found out by its tether or its parent, and not by the kubelet's word.
    is_agent_evidence: bool,
}

/// A gate that has reported, and what must be looked at once more before it is told so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingAck {
    pub(super) since: Instant,
    /// Containers to be probed once more.
    pub(super) unconfirmed: BTreeSet<String>,
    /// The API's word is old.
    pub(super) needs_pod_update: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FolderState {
    pub(crate) report: Option<Report>,
    /// It is another file than before.
    pub(crate) is_rewritten: bool,
    /// Somebody holds the tether.
    pub(crate) is_tether_held: bool,
    /// Something listens on the container's port now; asked only where a tether has dropped.
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

    /// Its readiness depends on what only the container or the kubelet can run.
    pub(crate) fn has_exec_probe(&self) -> bool {
        self.spec.probes().any(|probe| probe.is_exec())
    }

    pub(super) fn has_reported_start(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.started)
    }

    pub(super) fn is_gate_closed(&self) -> bool {
        self.spec.mode == Mode::Entrypoint && !self.report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Its gate waits, and says so to this controller.
    pub(super) fn is_gate_waiting(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.gate == Some(GateState::Waiting))
    }

    pub(super) fn is_running_per_kubelet(&self) -> bool {
        self.kubelet_status.as_ref().is_some_and(|word| word.running_id.is_some())
    }

    pub(super) fn is_known_running(&self) -> bool {
        self.has_reported_start() || self.is_running_per_kubelet()
    }

    pub(crate) fn kubelet_status(&self) -> Option<&Kubelet> {
        self.kubelet_status.as_ref()
    }

    /// Whether it has passed its probes, in this incarnation.
    pub(crate) fn has_passed_probes(&self) -> bool {
        self.probe_verdict == Some(probe::ProbeVerdict::Passed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.termination.is_some()
    }

    /// Whether nobody will start it again, by what is declared of it: where no API says so.
    pub(super) fn has_ended_for_good(&self) -> bool {
        let Some(end) = &self.termination else { return false };
        match self.spec.restart_policy.as_deref() {
            Some("Never") => true,
            Some("OnFailure") => end.exit_code == Some(0),
            _ => false,
        }
    }

    /// The ticket of its gate, where that waits and has been heard.
    pub(super) fn acked_ticket(&self) -> Option<&str> {
        let done = self.pending_ack.as_ref().is_some_and(|h| h.unconfirmed.is_empty() && !h.needs_pod_update);
        self.ticket.as_deref().filter(|_| done && self.is_gate_waiting())
    }

    pub(crate) fn stopping(&self) -> PreStopState {
        self.report.as_ref().map_or(PreStopState::NotBegun, |report| report.stopping)
    }

    /// Whether the drop of its tether now would be taken for its end.
    pub(crate) fn ends_on_tether_drop(&self) -> bool {
        self.tether == TetherState::Held && self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Whether its probing has to begin anew; asked once.
    pub(super) fn take_stale_probing(&mut self) -> bool {
        std::mem::take(&mut self.is_probing_stale)
    }

    /// Forgets what belonged to an incarnation that is over.
    fn reset_evidence(&mut self) {
        (self.probe_verdict, self.is_listening, self.kubelet_ready, self.was_ready) = (None, false, None, false);
        self.is_probing_stale = true;
    }

    /// Another incarnation has begun.
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
        self.kubelet_status.as_ref().and_then(|word| word.running_id.clone())
    }

    fn mark_ended(&mut self, end: Termination) {
        self.termination = Some(end);
        self.report = None;
        self.reset_evidence();
    }

    pub(super) fn evidence(&self, resumed: bool) -> Evidence {
        let answers = self.is_listening || self.probe_verdict.is_some_and(|word| word != probe::ProbeVerdict::NotYet);
        // A hook reports before anything can be Ready; only where hooks may be over already is an answer enough. A container
        // with neither hook nor gate can show itself by no other sign under a frozen kubelet.
        let by_answer = answers && (resumed || self.spec.mode != Mode::PostStart);
        let has_outside = self.spec.probes().any(|probe| !probe.is_exec());
        Evidence {
            // How it ended may be known only a little later: until then, not well.
            exit_code: self.termination.as_ref().map(|end| end.exit_code.unwrap_or(-1)),
            gate_closed: self.is_gate_closed(),
            started: self.is_known_running() || by_answer,
            probe_verdict: has_outside.then(|| self.probe_verdict.unwrap_or(probe::ProbeVerdict::NotYet)),
            exec_probes: self.has_exec_probe().then(|| ExecEvidence {
                reported_passed: self.report.as_ref().is_some_and(|report| report.check_passed),
                kubelet_ready: self.kubelet_ready,
            }),
            was_ready: self.was_ready,
        }
    }
}

//! Evidence for one container. The module uses no clock and does no I/O: callers pass the time of all evidence.

mod directory;
mod hold;
mod life;

use crate::input::pod_facts::KubeletStatus as Kubelet;
use crate::model::hold_gate::HoldGate;
use life::{EARLY_TETHER_DROP_WINDOW, Effect, End, Event, Life, Phase};
use podgate::core::container::{Container, Mode, Probe};
use podgate::core::evidence::{Evidence, ExecEvidence, KubeletReady};
use podgate::core::probe::ProbeVerdict;
use podgate::core::report::{GateState, PreStopState, Report};
use podgate::core::restart::{RestartDecision, restart_decision};
use podgate::core::snapshot::REASON_ENDED_FOR_GOOD;
use podgate::core::state::State;
use podgate::core::until::WaitCondition;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time from the first status of a running container to the start of its wrapped readinessProbe, if the kubelet has not
/// lost the probe's first run.
const LOST_PROBE_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ContainerTrack {
    pub(crate) spec: Container,
    /// True if the sidecar continues the board of an earlier run, so that the container may already be running.
    pub(super) is_resumed: bool,
    /// Report from the container's directory, even if the report does not count.
    raw_report: Option<Report>,
    /// True if `raw_report` belongs to the current incarnation.
    is_report_current: bool,
    /// Current start of the gate; `None` before its first report.
    gate: Option<Gate>,
    life: Life,
    pub(crate) kubelet_status: Option<Kubelet>,
    /// Container id for which the sidecar has asked the kubelet to repeat a lost probe.
    pub(super) repeated_probe_of: Option<String>,
    pub(super) restarts: u64,
    /// Number that identifies the current run of the probes. Each incarnation gets a new number.
    pub(crate) probing_run: u64,
    // `PodModel` sets the following fields. All combinations are valid.
    /// Confirmation of the conditions of a waiting gate; `None` while a condition is not met.
    pub(super) confirmation: Option<Confirmation>,
    pub(super) answers: IncarnationObservations,
    pub(super) override_state: Option<State>,
    /// Gate of a container in hold mode, which the kubelet enforces.
    pub(super) hold: Option<HoldGate>,
    /// True if the container counts as started for the Pod's stage.
    pub(super) has_started: bool,
    pub(super) state: State,
}

/// One start of an entrypoint gate.
#[derive(Debug)]
struct Gate {
    ticket: String,
    /// Time when the gate was first found open. Kept after an end, because that end can turn out to be wrong.
    opened_at: Option<Instant>,
}

/// Observations that are still needed before a waiting gate may open. All its conditions have been met since `since`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(super) since: Instant,
    /// Containers that must pass one more probe that begins after `since`.
    pub(super) to_confirm: BTreeSet<String>,
    /// True if the facts from the API are outdated and an update of the Pod is needed.
    pub(super) needs_pod_update: bool,
}

impl Confirmation {
    pub(crate) fn is_done(&self) -> bool {
        self.to_confirm.is_empty() && !self.needs_pod_update
    }
}

/// Observations of one incarnation, such as probe results. They are reset when the incarnation ends or the next one
/// starts.
#[derive(Debug, Default)]
pub(super) struct IncarnationObservations {
    pub(super) probe_verdict: Option<ProbeVerdict>,
    pub(super) is_listening: bool,
    pub(super) kubelet: KubeletReady,
    pub(super) was_ready: bool,
    /// True if the incarnation started while its gate at the kubelet was open.
    pub(super) has_passed_gate: bool,
}

impl ContainerTrack {
    pub(super) fn new(spec: Container, is_resumed: bool) -> ContainerTrack {
        ContainerTrack { spec, is_resumed, ..ContainerTrack::default() }
    }

    /// Returns true if the container has an `exec` probe, which only the agent or the kubelet can run.
    pub(crate) fn has_exec_probe(&self) -> bool {
        self.spec.probes().any(|probe| probe.is_exec())
    }

    /// Applies an event to the container's life, and forgets the evidence that no longer counts.
    fn apply(&mut self, event: Event, now: Instant) -> Effect {
        self.life.mode = self.spec.mode;
        let effect = self.life.apply(event, now);
        match effect {
            Effect::Nothing => return effect,
            Effect::Ended => {
                self.is_report_current = false;
                self.withdraw_passed_probe();
            }
            Effect::Restarted => {
                self.restarts += 1;
                self.raw_report.iter_mut().for_each(|report| report.stopping = PreStopState::NotBegun);
            }
        }
        self.answers = IncarnationObservations::default();
        self.probing_run += 1;
        effect
    }

    /// Forgets that the ended incarnation has passed its probe. In a container without a gate, the old report would
    /// otherwise count until the next incarnation's first probe.
    fn withdraw_passed_probe(&mut self) {
        if let Some(report) = self.raw_report.as_mut().filter(|_| self.gate.is_none()) {
            (report.check_passed, report.process) = (false, None);
        }
    }

    /// Stores the kubelet's status and derives ends and restarts of the container.
    pub(crate) fn on_kubelet_status(&mut self, status: &Kubelet, now: Instant) {
        let event = match (&status.termination, &status.running_id) {
            (Some((id, code)), _) => Event::KubeletEnded(id.clone(), *code),
            (None, Some(id)) => Event::KubeletRunning(id.clone()),
            (None, None) => Event::KubeletShowsNothing,
        };
        self.kubelet_status = Some(status.clone());
        if self.apply(event, now) == Effect::Restarted {
            self.withdraw_passed_probe();
        }
    }

    /// Returns true if the last report is of an open gate, and nothing shows whether the program still runs. A program
    /// that has closed its tether is in this state after a restart of the sidecar or a wrongly detected end.
    pub(super) fn may_be_untethered(&self) -> bool {
        self.life.phase == Phase::Free && self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Stores the verdict after a probe attempt that began at `began`.
    pub(super) fn on_probe(&mut self, verdict: ProbeVerdict, success: bool, began: Instant, epoch: &str) {
        if success && self.may_be_untethered() {
            self.run_without_tether(epoch, began);
        }
        // A startupProbe that has failed too often is final, because the kubelet then restarts the container.
        if self.startup_result().is_none_or(|(_, has_passed)| has_passed) {
            self.answers.probe_verdict = Some(verdict);
        }
    }

    /// Returns the time for [`apply_untethered_limit`](ContainerTrack::apply_untethered_limit), if it is pending: the
    /// kubelet has then shown an untethered program running for a time, and no new gate has reported.
    pub(crate) fn untethered_due(&self) -> Option<Instant> {
        let since = self.life.shown_running_since().filter(|_| self.may_be_untethered());
        since.map(|since| since + EARLY_TETHER_DROP_WINDOW)
    }

    /// Returns the time at which the first run of the wrapped readinessProbe counts as lost. The kubelet starts it
    /// right after the container, but reads a status that may be too old (prober/worker.go, `doProbe`), and then waits
    /// for a whole `periodSeconds`. `None` if the probe has run, or is not wrapped.
    pub(super) fn lost_first_probe_due(&self) -> Option<Instant> {
        let is_wrapped = self.spec.reports_start && self.spec.readiness_probe.as_ref().is_some_and(Probe::is_exec);
        // The report of a gate names the process too, so only a result shows that the probe has run.
        let has_run = self.raw_report.as_ref().is_some_and(|report| {
            report.check_passed || report.check_fails || report.ticket.is_none() && report.process.is_some()
        });
        let may_be_lost = is_wrapped && !has_run && self.spec.startup_probe.is_none() && !self.has_ended();
        let is_repeated = self.repeated_probe_of == self.running_container_id();
        let since = self.life.shown_running_since().filter(|_| may_be_lost && !is_repeated);
        since.map(|since| since + LOST_PROBE_AFTER)
    }

    pub(crate) fn apply_untethered_limit(&mut self, epoch: &str, now: Instant) {
        if self.untethered_due().is_some_and(|due| due <= now) {
            self.run_without_tether(epoch, now);
        }
    }

    fn run_without_tether(&mut self, epoch: &str, now: Instant) {
        self.apply(Event::RunsWithoutTether, now);
        self.update_report_validity(epoch);
    }

    /// Returns the report of the current incarnation.
    pub(super) fn report(&self) -> Option<&Report> {
        self.raw_report.as_ref().filter(|_| self.is_report_current)
    }

    pub(super) fn is_tethered(&self) -> bool {
        self.life.phase == Phase::Tethered
    }

    pub(super) fn is_gate_closed(&self) -> bool {
        match self.spec.mode {
            Mode::Entrypoint => !self.report().is_some_and(Report::has_gate_opened),
            // The gate may close again while the container runs, so `has_passed_gate` counts too.
            Mode::Hold => {
                let may_pass =
                    self.answers.has_passed_gate || self.hold.as_ref().is_some_and(|gate| gate.state.is_open());
                self.running_container_id().is_none() && !may_pass
            }
            Mode::PostStart | Mode::None => false,
        }
    }

    /// Returns true if the container's gate has reported in this epoch that the gate waits.
    pub(super) fn is_gate_waiting(&self) -> bool {
        self.report().is_some_and(|report| report.gate == Some(GateState::Waiting))
    }

    pub(super) fn is_known_running(&self) -> bool {
        // A finished hook does not report again to a restarted sidecar, but its tether remains.
        let has_hook_tether = self.is_tethered() && self.gate.is_none();
        has_hook_tether || self.report().is_some_and(|report| report.started) || self.running_container_id().is_some()
    }

    pub(crate) fn passes_all_probes(&self) -> bool {
        self.answers.probe_verdict == Some(ProbeVerdict::Passed)
    }

    /// Returns the gate's ticket, and the result of the container's startupProbe if the sidecar has run it: true if the
    /// probe has passed, false if it has failed too often.
    pub(crate) fn startup_result(&self) -> Option<(String, bool)> {
        self.spec.startup_probe.as_ref().filter(|probe| !probe.is_exec())?;
        let verdict = self.answers.probe_verdict.filter(|verdict| *verdict != ProbeVerdict::NotYet)?;
        Some((self.gate.as_ref()?.ticket.clone(), verdict.proves_start()))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.life.end().is_some()
    }

    /// Returns true if the program has run in the ended incarnation. The end of a gate that was still closed is no end
    /// of the program. A closed gate never exits with 0: after the report of a closed gate, this code is that of an
    /// earlier incarnation, unless the container has ended for good.
    fn has_opened(&self, end: &End) -> bool {
        let is_closed = self.raw_report.as_ref().is_some_and(|report| report.gate == Some(GateState::Waiting));
        self.spec.mode != Mode::Entrypoint
            || end.exit_code == Some(0) && (!is_closed || self.kubelet_shows_final_end())
            || self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Returns true if the kubelet's status shows that the container has ended and will not be restarted.
    pub(crate) fn kubelet_shows_final_end(&self) -> bool {
        self.kubelet_status.as_ref().is_some_and(|status| status.stuck_reason.as_deref() == Some(REASON_ENDED_FOR_GOOD))
    }

    /// Returns the kubelet's decision after the container's end, as the declaration determines it; `None` before the
    /// end.
    pub(super) fn restart_decision(&self) -> Option<RestartDecision> {
        // A parent reports the exit code, unless SIGKILL (128 + 9) has ended the parent itself.
        let is_parent = self.raw_report.as_ref().is_some_and(|report| report.is_parent);
        Some(self.restart_decision_for(self.life.end()?.exit_code.or(is_parent.then_some(137))))
    }

    /// Returns the kubelet's decision after an end with this exit code.
    pub(super) fn restart_decision_for(&self, code: Option<i32>) -> RestartDecision {
        restart_decision(self.spec.restart_policy.as_deref(), &self.spec.restart_policy_rules, code)
    }

    /// Returns the conditions of the container's gate; `None` unless the gate waits.
    pub(super) fn awaited_conditions(&self) -> Option<&[WaitCondition]> {
        match self.spec.mode {
            Mode::Entrypoint if !self.has_ended() => {
                Some(&self.report().filter(|_| self.is_gate_waiting())?.waiting_for)
            }
            Mode::Hold if self.hold.as_ref().is_some_and(|gate| !gate.state.is_open()) => Some(&self.spec.until),
            _ => None,
        }
    }

    /// Returns the ticket of the container's gate if the gate waits and its conditions are confirmed.
    pub(super) fn confirmed_ticket(&self) -> Option<&str> {
        let is_done = self.confirmation.as_ref().is_some_and(Confirmation::is_done);
        self.gate.as_ref().filter(|_| is_done && self.is_gate_waiting()).map(|gate| gate.ticket.as_str())
    }

    pub(crate) fn pre_stop_state(&self) -> PreStopState {
        self.report().map_or(PreStopState::NotBegun, |report| report.stopping)
    }

    /// Returns true if a release of the tether at this moment would count as the container's end.
    pub(crate) fn ends_on_tether_drop(&self) -> bool {
        self.is_tethered() && self.raw_report.as_ref().is_some_and(Report::has_gate_opened)
    }

    /// Ignores the end of the container with this id, which belongs to an earlier sandbox.
    pub(super) fn ignore_end_of(&mut self, id: &str) {
        self.life.superseded_id = Some(id.to_owned());
    }

    /// Returns the id of the container that the kubelet shows running.
    pub(crate) fn running_container_id(&self) -> Option<String> {
        self.kubelet_status.as_ref().and_then(|status| status.running_id.clone())
    }

    pub(super) fn evidence(&self) -> Evidence {
        let answers = self.answers.is_listening || self.answers.probe_verdict.is_some_and(ProbeVerdict::proves_start);
        // A hook always reports before its container can be Ready. An answer to a probe therefore proves the start only
        // if the hook may already have finished or the container has no hook. Without the kubelet's status, a container
        // with neither hook nor gate gives no other evidence.
        let started_by_answer = answers && (self.is_resumed || self.spec.mode != Mode::PostStart);
        let (reported_passed, is_parent) =
            self.report().map_or((false, false), |report| (report.check_passed, report.is_parent));
        let has_outside_probe = self.spec.probes().any(|probe| !probe.is_exec());
        Evidence {
            // The exit code may arrive later. Until then, treat the end as a failure.
            exit_code: self.life.end().filter(|end| self.has_opened(end)).map(|end| end.exit_code.unwrap_or(-1)),
            gate_closed: self.is_gate_closed(),
            started: self.is_known_running() || started_by_answer,
            probe_verdict: has_outside_probe.then(|| self.answers.probe_verdict.unwrap_or(ProbeVerdict::NotYet)),
            exec_probes: (self.has_exec_probe() || self.spec.ready_check.is_some()).then(|| ExecEvidence {
                reported_passed,
                // The kubelet does not run the check that replaces the probes, so its `ready` status does not count.
                // A parent runs the probes as long as the command runs, and its report comes first: a late status can
                // be that of an earlier incarnation.
                kubelet: if self.spec.ready_check.is_none() && (reported_passed || !is_parent) {
                    self.answers.kubelet
                } else {
                    KubeletReady::default()
                },
            }),
            was_ready: self.answers.was_ready,
        }
    }
}

//! Decides when an incarnation of a container ends and when the next one starts. The evidence is the tether, the report
//! and the kubelet's status. That status may be late or belong to another incarnation.

use super::{Answers, ContainerTrack, Gate, Kubelet};
use crate::model::pending_ack::PendingAck;
use podgate::core::report::{PreStopState, Report};
use std::time::{Duration, Instant};

/// Time after the opening of a gate in which a released tether does not count as the container's end. Some programs
/// close inherited descriptors at their start.
const EARLY_DROP_WINDOW: Duration = Duration::from_secs(2);

/// Life of the current incarnation. A pending acknowledgment counts only while the gate waits.
#[derive(Debug)]
pub(super) enum Life {
    /// No process holds the tether, and no end was observed. In this state, the report of an open gate does not count.
    /// `running_since` contains the id of a container that the kubelet shows running, and the time since which the
    /// kubelet shows it.
    Free {
        ack: Option<PendingAck>,
        running_since: Option<(Instant, String)>,
    },
    /// A process of the container holds the tether, so the container runs.
    Held(Option<PendingAck>),
    /// The program has closed the tether and still runs. Only the kubelet can report the program's end.
    Untethered,
    Ended(Termination),
}

#[derive(Debug)]
pub(super) struct Termination {
    container_id: Option<String>,
    pub(super) exit_code: Option<i32>,
    /// True if the end was derived from the tether or the agent's report, not from the kubelet.
    by_agent: bool,
}

impl Default for Life {
    /// Returns the life of an incarnation without any evidence.
    fn default() -> Life {
        Life::Free { ack: None, running_since: None }
    }
}

impl ContainerTrack {
    /// Counts a new incarnation and clears the evidence of the previous one.
    fn note_restart(&mut self) {
        self.restarts += 1;
        self.forget_answers();
        if let Some(report) = &mut self.raw_report {
            report.stopping = PreStopState::NotBegun;
        }
    }

    /// Forgets that the ended incarnation has passed its probe. In a container without a gate, the old report would
    /// otherwise count until the next incarnation's first probe.
    fn withdraw_passed_probe(&mut self) {
        if let Some(report) = self.raw_report.as_mut().filter(|_| self.gate.is_none()) {
            (report.check_passed, report.process) = (false, None);
        }
    }

    pub(super) fn start_new_incarnation(&mut self, life: Life) {
        let ended_id = self.termination().and_then(|end| end.container_id.clone());
        self.superseded_id = ended_id.or_else(|| self.running_id());
        self.life = life;
        self.note_restart();
    }

    pub(super) fn end(&mut self, container_id: Option<String>, exit_code: Option<i32>, by_agent: bool) {
        self.life = Life::Ended(Termination { container_id, exit_code, by_agent });
        self.is_report_current = false;
        self.withdraw_passed_probe();
        self.forget_answers();
    }

    fn forget_answers(&mut self) {
        self.answers = Answers::default();
        self.probing_run += 1;
    }

    /// Handles the ticket of a gate, and returns true for a new ticket. A new ticket starts a new incarnation, unless
    /// it is the first ticket in this epoch.
    pub(super) fn on_ticket(&mut self) -> bool {
        let ticket = self.raw_report.as_ref().and_then(|report| report.ticket.clone());
        let is_new = |ticket: &String| self.gate.as_ref().is_none_or(|gate| gate.ticket != *ticket);
        let Some(ticket) = ticket.filter(is_new) else { return false };
        let is_first = self.gate.replace(Gate { ticket, opened_at: None }).is_none() && !self.has_ended();
        match is_first {
            true => self.life = Life::default(),
            false => self.start_new_incarnation(Life::default()),
        }
        true
    }

    /// Updates the container's life from the state of its tether. Call this after the report and its ticket have been
    /// handled.
    pub(super) fn on_tether(&mut self, held: bool, is_listening: bool, epoch: &str, now: Instant) {
        let report = self.raw_report.clone().unwrap_or_default();
        let (is_gate, opened) = (self.gate.is_some(), report.has_gate_opened());
        let opened_at = self.gate.as_ref().and_then(|gate| gate.opened_at);
        let is_first = opened && opened_at.is_none() && report.epoch == epoch;
        let is_early = opened_at.is_none_or(|at| now.saturating_duration_since(at) < EARLY_DROP_WINDOW);
        if let Some(gate) = self.gate.as_mut().filter(|_| opened) {
            gate.opened_at = opened_at.or(Some(now));
        }
        match (&mut self.life, held) {
            (Life::Free { ack, .. }, true) => self.life = Life::Held(ack.take()),
            (Life::Untethered, true) => self.life = Life::Held(None),
            // The next incarnation of a container with a gate starts with a new ticket. A hook has only the tether.
            (Life::Ended(_), true) if !is_gate => self.start_new_incarnation(Life::Held(None)),
            // The program has no tether or has closed its inherited descriptors.
            (Life::Free { .. }, false) if is_first => self.life = Life::Untethered,
            (Life::Held(_), false) if is_gate && opened && (is_early || is_listening) => self.life = Life::Untethered,
            // A container with a closed gate has not started, so the released tether is not an end.
            (Life::Held(ack), false) if is_gate && !opened => {
                self.life = Life::Free { ack: ack.take(), running_since: None }
            }
            (Life::Held(_), false) => self.end(self.running_id(), report.exit_code, true),
            _ => {}
        }
    }

    /// Stores the kubelet's status and derives ends and restarts of the container.
    pub(crate) fn on_kubelet_status(&mut self, status: &Kubelet, now: Instant) {
        let before = self.kubelet_status.replace(status.clone()).and_then(|status| status.running_id);
        let (before, superseded, is_gate) = (before.as_ref(), self.superseded_id.as_ref(), self.gate.is_some());
        let may_be = |end: &Termination, id: &str| end.container_id.as_deref().is_none_or(|known| known == id);
        match (&mut self.life, &status.termination, &status.running_id) {
            (_, Some((id, _)), _) if superseded == Some(id) => {}
            // The tether is held, and the kubelet never showed the ended id as running. The end therefore belongs to an
            // earlier incarnation.
            (Life::Held(_), Some((id, _)), _) if before != Some(id) => self.superseded_id = Some(id.clone()),
            (Life::Ended(end), Some((id, code)), _) if may_be(end, id) => {
                (end.container_id, end.exit_code) = (Some(id.clone()), Some(*code));
            }
            (_, Some((id, code)), _) => self.end(Some(id.clone()), Some(*code), false),
            // The kubelet does not show the end yet. Its status can be very late, especially while the Pod terminates.
            (Life::Ended(end), None, Some(id)) if end.by_agent && may_be(end, id) => {
                end.container_id = Some(id.clone())
            }
            // The end belongs to an earlier incarnation. Usually a new gate's report has already cleared the end. If
            // that report came before the end and the gate has no tether, the report counts again later (see below).
            (Life::Ended(end), None, Some(id)) if is_gate && !end.by_agent && !may_be(end, id) => {
                self.life = Life::default()
            }
            // In a container with a gate, only a new ticket starts the next incarnation. A hook has no ticket.
            (Life::Ended(_), None, Some(_)) if !is_gate => {
                self.life = Life::default();
                self.note_restart();
            }
            (_, None, Some(id)) if !is_gate && before.is_some_and(|old| old != id && superseded != Some(old)) => {
                self.withdraw_passed_probe();
                self.note_restart();
            }
            _ => {}
        }
        self.ended_at = self.has_ended().then(|| self.ended_at.unwrap_or(now));
        // The report of a program without a tether does not count after a restart of the sidecar or a wrongly detected
        // end. The report counts again when the kubelet has shown the program running for `EARLY_DROP_WINDOW`, if no
        // new gate has reported by then.
        let has_opened = self.raw_report.as_ref().is_some_and(Report::has_gate_opened);
        let id = self.running_id().filter(|_| has_opened);
        if let Life::Free { running_since, .. } = &mut self.life {
            let known = running_since.take().filter(|(_, known)| Some(known) == id.as_ref());
            *running_since = known.or(id.map(|id| (now, id)));
        }
    }

    /// Returns the time for the next [`tick`](ContainerTrack::tick); `None` if no time limit is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        let Life::Free { running_since: Some((since, _)), .. } = &self.life else { return None };
        Some(*since + EARLY_DROP_WINDOW)
    }

    pub(crate) fn tick(&mut self, epoch: &str, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.life = Life::Untethered;
            self.check_report(epoch);
        }
    }
}

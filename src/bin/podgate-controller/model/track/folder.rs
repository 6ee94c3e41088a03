//! What lies in a container's own folder: its agent's report, and the lock that its process holds.

use super::{ContainerTrack, EARLY_DROP_WINDOW, FolderState, Termination, TetherState};
use podgate::core::container::Mode;
use podgate::core::report::{GateState, PreStopState, Report};
use std::time::Instant;

impl ContainerTrack {
    /// Takes in what lies in its folder. Gives whether that says anything new that counts.
    pub(crate) fn on_report(&mut self, folder: FolderState, epoch: &str, now: Instant) -> bool {
        let FolderState { report, is_rewritten: rewritten, is_tether_held: held, is_listening: listens } = folder;
        // Who takes no part in the order has neither gate nor tether, whatever lies there.
        let held = held && self.spec.mode != Mode::None;
        let (before, had_ended) = (self.report.clone(), self.termination.is_some());
        self.raw_report = report.map(|report| self.sanitize(report));
        let new_gate = self.note_new_ticket();
        let is_gate = self.ticket.is_some();
        let opened = self.raw_report.as_ref().is_some_and(Report::has_gate_opened);
        let regained = held && self.tether != TetherState::Held;
        let dropped = !held && self.tether == TetherState::Held;
        if held {
            self.tether = TetherState::Held;
        }
        if opened && self.opened_at.is_none() {
            self.opened_at = Some(now);
            let this_epoch = self.raw_report.as_ref().is_some_and(|report| report.epoch == epoch);
            if !held && this_epoch && self.termination.is_none() {
                // It has none, or closes what it inherits.
                self.tether = TetherState::Untethered;
            }
        }
        if dropped {
            let early = self.opened_at.is_none_or(|at| now.saturating_duration_since(at) < EARLY_DROP_WINDOW);
            self.tether =
                if is_gate && opened && (early || listens) { TetherState::Untethered } else { TetherState::Free };
            // Nobody has begun to use a container whose gate was still closed.
            if self.tether == TetherState::Free && (opened || !is_gate) && self.termination.is_none() {
                let code = self.raw_report.as_ref().and_then(|report| report.exit_code);
                self.mark_ended(Termination {
                    container_id: self.running_id(),
                    exit_code: code,
                    is_agent_evidence: true,
                });
            }
        }
        if !is_gate && regained && self.termination.is_some() {
            self.start_new_incarnation();
        }
        self.report = self.raw_report.clone().filter(|report| self.is_current(report, epoch));
        if let Some(report) = &self.report {
            match report.exit_code {
                Some(code) if self.termination.is_none() => {
                    let end =
                        Termination { container_id: self.running_id(), exit_code: Some(code), is_agent_evidence: true };
                    self.mark_ended(end);
                }
                // Who reports lives: an end that is known already was that of an earlier incarnation, whatever the kubelet
                // shows. It may show that end until the hook which wrote this report has returned. An end that is found out in
                // this very look came after whatever was written: a preStop hook's last word, say.
                None if rewritten && !is_gate && had_ended && self.termination.is_some() => {
                    self.start_new_incarnation();
                    return true;
                }
                _ => {}
            }
        }
        new_gate || dropped || regained || self.report.is_some() && self.report != before
    }

    /// Of what an agent says of its container, what that can have: who takes no part in the order has neither gate nor hook of
    /// ours, and a hook knows of no exit code. What has begun to stop does not begin anew, nor does a gate that has opened close.
    fn sanitize(&self, report: Report) -> Report {
        let stopping =
            self.raw_report.as_ref().map_or(PreStopState::NotBegun, |before| before.stopping).max(report.stopping);
        let report = Report { stopping, ..report };
        match self.spec.mode {
            Mode::None => Report { sandbox: report.sandbox, epoch: report.epoch, stopping, ..Report::default() },
            Mode::PostStart => {
                Report { gate: None, ticket: None, exit_code: None, watched_containers: Vec::new(), ..report }
            }
            Mode::Entrypoint => {
                let same = self.raw_report.as_ref().filter(|before| before.ticket == report.ticket);
                let was_open = same.is_some_and(Report::has_gate_opened);
                let (gate, started) =
                    if was_open { (Some(GateState::Opened), true) } else { (report.gate, report.started) };
                let new = same.is_none() && self.ticket.is_some();
                Report { gate, started, stopping: if new { PreStopState::NotBegun } else { stopping }, ..report }
            }
        }
    }

    /// A gate that has just begun: another incarnation, unless it is the first of this epoch.
    fn note_new_ticket(&mut self) -> bool {
        let Some(ticket) = self.raw_report.as_ref().and_then(|report| report.ticket.clone()) else { return false };
        if self.ticket.as_ref() == Some(&ticket) {
            return false;
        }
        let is_first = self.ticket.replace(ticket).is_none() && self.termination.is_none();
        (self.tether, self.opened_at, self.pending_ack, self.untethered_since) = (TetherState::Free, None, None, None);
        if !is_first {
            self.start_new_incarnation();
        }
        true
    }

    /// Whether a report says anything of the incarnation that now is. After `execve` nobody can report anew, so it counts for as
    /// long as the tether is held, across starts of the controller.
    pub(super) fn is_current(&self, report: &Report, epoch: &str) -> bool {
        match report.has_gate_opened() {
            true => self.tether != TetherState::Free || (report.exit_code.is_some() && report.epoch == epoch),
            false => report.epoch == epoch,
        }
    }
}

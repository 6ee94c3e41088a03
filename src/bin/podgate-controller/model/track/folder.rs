//! Handles the content of a container's folder: the agent's report and the tether.

use super::{ContainerTrack, EARLY_DROP_WINDOW, FolderState, Termination, TetherState};
use podgate::core::container::Mode;
use podgate::core::report::{GateState, PreStopState, Report};
use std::time::Instant;

impl ContainerTrack {
    /// Stores the content of the container's folder. Returns true if the content has changed and counts as evidence.
    pub(crate) fn on_report(&mut self, folder: FolderState, epoch: &str, now: Instant) -> bool {
        let FolderState { report, is_rewritten, is_tether_held: held, is_listening } = folder;
        // A container outside the order and a held container have no tether, so ignore a lock in their folders.
        let held = held && !matches!(self.spec.mode, Mode::None | Mode::Hold);
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
                // The program has no tether or has closed its inherited descriptors.
                self.tether = TetherState::Untethered;
            }
        }
        if dropped {
            let early = self.opened_at.is_none_or(|at| now.saturating_duration_since(at) < EARLY_DROP_WINDOW);
            self.tether =
                if is_gate && opened && (early || is_listening) { TetherState::Untethered } else { TetherState::Free };
            // A container with a closed gate has not started, so the released tether is not an end.
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
                // A new report proves that the container runs, so a known end belongs to an earlier incarnation. The
                // kubelet may show that end until the hook that wrote this report has returned. An end detected in this
                // call happened after the report, for example after the last report of a preStop hook.
                None if is_rewritten && !is_gate && had_ended && self.termination.is_some() => {
                    self.start_new_incarnation();
                    return true;
                }
                _ => {}
            }
        }
        new_gate || dropped || regained || self.report.is_some() && self.report != before
    }

    /// Removes the fields that the container's mode does not allow from a report. A container outside the order has
    /// neither gate nor hook, a held container has no gate of its own, and a hook can't report an exit code. Stopping is never undone, and an open gate never
    /// closes.
    fn sanitize(&self, report: Report) -> Report {
        let stopping =
            self.raw_report.as_ref().map_or(PreStopState::NotBegun, |before| before.stopping).max(report.stopping);
        let report = Report { stopping, ..report };
        match self.spec.mode {
            Mode::None | Mode::Hold => {
                Report { sandbox: report.sandbox, epoch: report.epoch, stopping, ..Report::default() }
            }
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

    /// Handles the ticket of a new gate. The ticket starts a new incarnation, unless it is the first ticket in this
    /// epoch.
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

    /// Returns true if a report belongs to the current incarnation. After `execve`, the agent can't report again. The
    /// report of an open gate therefore counts while the tether is held, even after a restart of the sidecar.
    pub(super) fn is_current(&self, report: &Report, epoch: &str) -> bool {
        match report.has_gate_opened() {
            true => self.tether != TetherState::Free || (report.exit_code.is_some() && report.epoch == epoch),
            false => report.epoch == epoch,
        }
    }
}

//! Handles the content of a container's directory: the agent's report and the tether.

use super::life::{EARLY_TETHER_DROP_WINDOW, Event, Phase};
use super::{ContainerTrack, Gate};
use crate::input::report_file::DirectoryState;
use podgate::core::container::Mode;
use podgate::core::report::{GateState, PreStopState, Report};
use std::time::Instant;

impl ContainerTrack {
    /// Stores the content of the container's directory. Returns true if it has changed and counts as evidence.
    pub(crate) fn on_report(&mut self, directory: DirectoryState, epoch: &str, now: Instant) -> bool {
        let DirectoryState { report, is_rewritten, is_tethered, is_listening } = directory;
        // A container with neither an entrypoint gate nor a hook of podgate has no tether. Ignore a lock in the
        // directory of such a container.
        let has_hook = self.spec.pre_stop || self.spec.reports_start;
        let is_tethered = is_tethered && (has_hook || !matches!(self.spec.mode, Mode::None | Mode::Hold));
        let (before, had_ended, was_tethered) = (self.report().cloned(), self.has_ended(), self.is_tethered());
        let process = |report: Option<&Report>| report.and_then(|report| report.process);
        let processes = process(self.raw_report.as_ref()).zip(process(report.as_ref()));
        let is_other_process = processes.is_some_and(|(last, new)| is_rewritten && last != new);
        // The sidecar may read an unchanged report again after the container's end. Keep the stored report, because
        // `end` has removed some of its fields.
        if is_rewritten || self.raw_report.is_none() {
            self.raw_report = report.map(|report| self.sanitize(report));
        }
        let is_new_gate = self.on_ticket(is_tethered, now);
        if let Some(code) = self.raw_report.as_ref().and_then(|report| report.exit_code) {
            self.apply(Event::ExitReported(code), now);
        }
        if let Some(tether) = self.tether_event(is_tethered, is_listening, epoch, now) {
            self.apply(tether, now);
        }
        self.update_report_validity(epoch);
        // A new report proves that the container runs, so an end that was known before belongs to an earlier
        // incarnation. The kubelet may show that end until the hook that wrote the report returns. An end that this
        // call detected is newer, for example after the last report of a preStop hook.
        if is_rewritten && self.gate.is_none() && self.report().is_some() && had_ended == self.has_ended() {
            let event = match (had_ended, is_other_process) {
                (true, _) => Event::ReportAfterEnd,
                (false, true) => Event::OtherProcess,
                (false, false) => return self.report() != before.as_ref() || is_tethered != was_tethered,
            };
            self.apply(event, now);
            return true;
        }
        let has_changed = is_new_gate || is_tethered != was_tethered || had_ended != self.has_ended();
        has_changed || self.report().is_some() && self.report() != before.as_ref()
    }

    /// Returns true if the gate has reported a new ticket.
    fn on_ticket(&mut self, is_tethered: bool, now: Instant) -> bool {
        let ticket = self.raw_report.as_ref().and_then(|report| report.ticket.clone());
        let is_new = |ticket: &String| self.gate.as_ref().is_none_or(|gate| gate.ticket != *ticket);
        let Some(ticket) = ticket.filter(is_new) else { return false };
        self.confirmation = None;
        let is_first = self.gate.replace(Gate { ticket, opened_at: None }).is_none();
        let may_have_ended = !is_tethered && self.raw_report.as_ref().is_some_and(Report::has_gate_opened);
        self.apply(Event::Ticket { is_first, may_have_ended }, now);
        true
    }

    /// Returns the event for the state of the tether, and remembers when the gate was found open.
    fn tether_event(&mut self, is_tethered: bool, is_listening: bool, epoch: &str, now: Instant) -> Option<Event> {
        let report = self.raw_report.as_ref();
        let is_open = report.is_some_and(Report::has_gate_opened);
        let is_current = report.is_some_and(|report| report.epoch == epoch);
        let opened_at = self.gate.as_ref().and_then(|gate| gate.opened_at);
        if let Some(gate) = self.gate.as_mut().filter(|_| is_open) {
            // A gate of an earlier epoch opened before this run of the sidecar, so its program has long started.
            let seen_at = if is_current { Some(now) } else { now.checked_sub(EARLY_TETHER_DROP_WINDOW) };
            gate.opened_at = opened_at.or(seen_at).or(Some(now));
        }
        let is_early = || opened_at.is_none_or(|at| now.saturating_duration_since(at) < EARLY_TETHER_DROP_WINDOW);
        match self.gate {
            _ if is_tethered => Some(Event::TetherTaken),
            Some(_) if !is_open => Some(Event::GateClosed),
            Some(_) if opened_at.is_none() && is_current => Some(Event::RunsWithoutTether),
            // The program may have closed its descriptors.
            Some(_) if is_listening || is_early() => self.is_tethered().then_some(Event::RunsWithoutTether),
            _ => Some(Event::TetherDropped),
        }
    }

    /// Removes from a report the fields that the container's mode does not allow. Only an agent in entrypoint mode
    /// reports a gate. A hook or probe cannot report an exit code. If a stop had begun or the gate was open in the
    /// earlier report, keeps that fact, because an agent never reverses it.
    fn sanitize(&self, report: Report) -> Report {
        let stopping =
            self.raw_report.as_ref().map_or(PreStopState::NotBegun, |before| before.stopping).max(report.stopping);
        let report = Report { stopping, ..report };
        match self.spec.mode {
            Mode::None | Mode::Hold if !(self.has_exec_probe() || self.spec.reports_start) => {
                Report { sandbox: report.sandbox, epoch: report.epoch, stopping, ..Report::default() }
            }
            Mode::None | Mode::Hold | Mode::PostStart => {
                Report { gate: None, ticket: None, exit_code: None, watched_containers: Vec::new(), ..report }
            }
            Mode::Entrypoint => {
                let same = self.raw_report.as_ref().filter(|before| before.ticket == report.ticket);
                let was_open = same.is_some_and(Report::has_gate_opened);
                let (gate, started) =
                    if was_open { (Some(GateState::Opened), true) } else { (report.gate, report.started) };
                let new = same.is_none() && self.gate.is_some();
                Report { gate, started, stopping: if new { PreStopState::NotBegun } else { stopping }, ..report }
            }
        }
    }

    /// Decides if the directory's report belongs to the current incarnation. After `execve`, the agent cannot report
    /// again. The report of an open gate therefore counts while the container is tethered, even if the sidecar
    /// restarts. An exit code counts until the next gate reports.
    pub(super) fn update_report_validity(&mut self, epoch: &str) {
        let runs = matches!(self.life.phase, Phase::Tethered | Phase::Untethered);
        self.is_report_current = self.raw_report.as_ref().is_some_and(|report| match report.has_gate_opened() {
            true => runs || report.exit_code.is_some(),
            false => report.epoch == epoch,
        });
    }
}

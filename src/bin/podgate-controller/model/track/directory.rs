//! Handles the content of a container's directory: the agent's report and the tether.

use super::life::Life;
use super::{ContainerTrack, DirectoryState};
use podgate::core::container::Mode;
use podgate::core::report::{GateState, PreStopState, Report};
use std::time::Instant;

impl ContainerTrack {
    /// Stores the content of the container's directory. Returns true if the content has changed and counts as evidence.
    pub(crate) fn on_report(&mut self, directory: DirectoryState, epoch: &str, now: Instant) -> bool {
        let DirectoryState { report, is_rewritten, is_tether_held: held, is_listening } = directory;
        // A container with neither an entrypoint gate nor a hook of podgate has no tether. Ignore a lock in the
        // directory of such a container.
        let held = held && (self.spec.pre_stop || !matches!(self.spec.mode, Mode::None | Mode::Hold));
        let (before, had_ended) = (self.report().cloned(), self.has_ended());
        let process = |report: Option<&Report>| report.and_then(|report| report.process);
        let is_other_run = process(self.raw_report.as_ref())
            .zip(process(report.as_ref()))
            .is_some_and(|(last, new)| is_rewritten && last != new);
        // The sidecar may read an unchanged report again after the container's end. Keep the stored report, because
        // `end` has removed some of its fields.
        if is_rewritten || self.raw_report.is_none() {
            self.raw_report = report.map(|report| self.sanitize(report));
        }
        let new_gate = self.on_ticket();
        let was_held = self.is_tether_held();
        self.on_tether(held, is_listening, epoch, now);
        self.check_report(epoch);
        match self.report().map(|report| report.exit_code) {
            Some(Some(code)) if !self.has_ended() => self.end(self.running_id(), Some(code), true),
            // A new report proves that the container runs. An end that was known before this call belongs to an earlier
            // incarnation. The kubelet may show that end until the hook that wrote the report returns. An end that this
            // call detected is newer, for example after the last report of a preStop hook. A different process 1 in the
            // report also proves a restart.
            Some(None)
                if is_rewritten
                    && self.gate.is_none()
                    && (is_other_run || had_ended)
                    && had_ended == self.has_ended() =>
            {
                self.start_new_incarnation(Life::default());
                return true;
            }
            _ => {}
        }
        let has_changed = new_gate || held != was_held || had_ended != self.has_ended();
        has_changed || self.report().is_some() && self.report() != before.as_ref()
    }

    /// Removes from a report the fields that the container's mode does not allow. Only an agent in entrypoint mode
    /// reports a gate. A hook or probe cannot report an exit code. If a stop had begun or the gate was open in the
    /// earlier report, keeps that fact, because an agent never reverses it.
    fn sanitize(&self, report: Report) -> Report {
        let stopping =
            self.raw_report.as_ref().map_or(PreStopState::NotBegun, |before| before.stopping).max(report.stopping);
        let report = Report { stopping, ..report };
        match self.spec.mode {
            Mode::None | Mode::Hold if !self.has_exec_probe() => {
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
    /// again. The report of an open gate therefore counts while the tether is held, even if the sidecar restarts.
    pub(super) fn check_report(&mut self, epoch: &str) {
        let runs = matches!(self.life, Life::Held(_) | Life::Untethered);
        self.is_report_current = self.raw_report.as_ref().is_some_and(|report| match report.has_gate_opened() {
            true => runs || (report.exit_code.is_some() && report.epoch == epoch),
            false => report.epoch == epoch,
        });
    }
}

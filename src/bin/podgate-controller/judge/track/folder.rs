//! What lies in a container's own folder: its agent's report, and the lock that its process holds.

use super::{CLOSES_EARLY, End, Folder, Tether, Track};
use podgate::core::container::Mode;
use podgate::core::report::{Gate, Report, Stopping};
use std::time::Instant;

impl Track {
    /// Takes in what lies in its folder. Gives whether that says anything new that counts.
    pub(crate) fn hear_folder(&mut self, folder: Folder, epoch: &str, now: Instant) -> bool {
        let Folder { report, rewritten, held, listens } = folder;
        // Who takes no part in the order has neither gate nor tether, whatever lies there.
        let held = held && self.declared.mode != Mode::None;
        let (before, had_ended) = (self.report.clone(), self.ended.is_some());
        self.raw = report.map(|report| self.plausible(report));
        let new_gate = self.greet_gate();
        let is_gate = self.ticket.is_some();
        let opened = self.raw.as_ref().is_some_and(Report::has_opened);
        let regained = held && self.tether != Tether::Held;
        let dropped = !held && self.tether == Tether::Held;
        if held {
            self.tether = Tether::Held;
        }
        if opened && self.opened_at.is_none() {
            self.opened_at = Some(now);
            let this_epoch = self.raw.as_ref().is_some_and(|report| report.epoch == epoch);
            if !held && this_epoch && self.ended.is_none() {
                // It has none, or closes what it inherits.
                self.tether = Tether::Untethered;
            }
        }
        if dropped {
            let early = self.opened_at.is_none_or(|at| now.saturating_duration_since(at) < CLOSES_EARLY);
            self.tether = if is_gate && opened && (early || listens) { Tether::Untethered } else { Tether::Free };
            // Nobody has begun to use a container whose gate was still closed.
            if self.tether == Tether::Free && (opened || !is_gate) && self.ended.is_none() {
                let code = self.raw.as_ref().and_then(|report| report.exit_code);
                self.end(End { id: self.running_id(), code, own: true });
            }
        }
        if !is_gate && regained && self.ended.is_some() {
            self.outlive();
        }
        self.report = self.raw.clone().filter(|report| self.counts(report, epoch));
        if let Some(report) = &self.report {
            match report.exit_code {
                Some(code) if self.ended.is_none() => {
                    let end = End { id: self.running_id(), code: Some(code), own: true };
                    self.end(end);
                }
                // Who reports lives: an end that is known already was that of an earlier incarnation, whatever the kubelet
                // shows. It may show that end until the hook which wrote this report has returned. An end that is found out in
                // this very look came after whatever was written: a preStop hook's last word, say.
                None if rewritten && !is_gate && had_ended && self.ended.is_some() => {
                    self.outlive();
                    return true;
                }
                _ => {}
            }
        }
        new_gate || dropped || regained || self.report.is_some() && self.report != before
    }

    /// Of what an agent says of its container, what that can have: who takes no part in the order has neither gate nor hook of
    /// ours, and a hook knows of no exit code. What has begun to stop does not begin anew, nor does a gate that has opened close.
    fn plausible(&self, report: Report) -> Report {
        let stopping = self.raw.as_ref().map_or(Stopping::No, |before| before.stopping).max(report.stopping);
        let report = Report { stopping, ..report };
        match self.declared.mode {
            Mode::None => Report { sandbox: report.sandbox, epoch: report.epoch, stopping, ..Report::default() },
            Mode::PostStart => Report { gate: None, ticket: None, exit_code: None, watching: Vec::new(), ..report },
            Mode::Entrypoint => {
                let same = self.raw.as_ref().filter(|before| before.ticket == report.ticket);
                let was_open = same.is_some_and(Report::has_opened);
                let (gate, started) = if was_open { (Some(Gate::Opened), true) } else { (report.gate, report.started) };
                let new = same.is_none() && self.ticket.is_some();
                Report { gate, started, stopping: if new { Stopping::No } else { stopping }, ..report }
            }
        }
    }

    /// A gate that has just begun: another incarnation, unless it is the first of this epoch.
    fn greet_gate(&mut self) -> bool {
        let Some(ticket) = self.raw.as_ref().and_then(|report| report.ticket.clone()) else { return false };
        if self.ticket.as_ref() == Some(&ticket) {
            return false;
        }
        let is_first = self.ticket.replace(ticket).is_none() && self.ended.is_none();
        (self.tether, self.opened_at, self.hearing, self.lingers) = (Tether::Free, None, None, None);
        if !is_first {
            self.outlive();
        }
        true
    }

    /// Whether a report says anything of the incarnation that now is. After `execve` nobody can report anew, so it counts for as
    /// long as the tether is held, across starts of the controller.
    pub(super) fn counts(&self, report: &Report, epoch: &str) -> bool {
        match report.has_opened() {
            true => self.tether != Tether::Free || (report.exit_code.is_some() && report.epoch == epoch),
            false => report.epoch == epoch,
        }
    }
}

//! Starts and ends of the simulated containers, and the decisions of their gates.

use super::*;

impl World {
    /// Changes the process of a container, and records which conditions hold before and after the change.
    pub(super) fn change(&mut self, at: usize, process: Process) {
        let number = self.next(CHANGE);
        let actor = &mut self.actors[at];
        actor.possible.extend(actor.truths());
        actor.process = process;
        actor.possible.extend(actor.truths());
        actor.changes.0 = number;
    }

    pub(super) fn write(&mut self, at: usize, change: impl FnOnce(&mut Report)) {
        let epoch = self.pod.epoch.id.clone();
        let actor = &mut self.actors[at];
        let report = actor.report.get_or_insert_default();
        report.epoch = epoch;
        change(report);
        actor.writes.0 += 1;
    }

    /// Starts a container, as the kubelet does.
    pub(super) fn start(&mut self, at: usize) {
        let actor = &self.actors[at];
        let may_start = match actor.process {
            Process::Absent | Process::GateEnded(_) => true,
            Process::Ended(code) => !(actor.is_job && code == 0),
            Process::Gate | Process::Program => false,
        };
        if !may_start || actor.spec.mode == Mode::Hold && !actor.is_gate_file_open {
            return;
        }
        let (is_gate, until) = (actor.spec.mode == Mode::Entrypoint, actor.spec.until.clone());
        let run = self.next(RUN);
        (self.actors[at].run, self.actors[at].started_at) = (run, self.wall);
        (self.actors[at].is_healthy, self.actors[at].was_healthy) = (false, false);
        self.change(at, if is_gate { Process::Gate } else { Process::Program });
        self.actors[at].met_since = None;
        if self.actors[at].has_agent() {
            let sandbox = Some(self.sandbox());
            self.write(at, |report| {
                let process = Some(ProcessId { pid: 1, start_ticks: run });
                let (gate, ticket) = (is_gate.then_some(GateState::Waiting), is_gate.then(|| format!("t{run}")));
                let (epoch, started) = (std::mem::take(&mut report.epoch), !is_gate);
                let waiting_for = until;
                *report = Report { sandbox, epoch, gate, ticket, process, started, waiting_for, ..Report::default() };
            });
            self.actors[at].is_tethered = true;
        }
        // Without its tether, the report of a hook does not show if the container still runs.
        if self.actors[at].spec.mode == Mode::PostStart {
            self.observe(at, false);
        }
    }

    pub(super) fn end(&mut self, at: usize, code: i32) {
        let actor = &mut self.actors[at];
        let ended = match actor.process {
            Process::Gate => Process::GateEnded(code.max(75)),
            Process::Program => Process::Ended(code),
            _ => return,
        };
        actor.has_end_released = std::mem::take(&mut actor.is_tethered);
        if actor.has_parent && ended == Process::Ended(code) && code != 137 {
            self.write(at, |report| report.exit_code = Some(code));
        }
        self.change(at, ended);
    }

    /// Lets a waiting gate read the board and decide. `keeps_tether` is false for a program that closes its tether.
    pub(super) fn decide_gate(&mut self, at: usize, keeps_tether: bool) {
        let actor = &self.actors[at];
        if actor.process != Process::Gate {
            return;
        }
        let Some(board) = self.pod.published.clone() else { return };
        if actor.report.as_ref().is_some_and(|report| report.epoch != board.epoch) {
            self.write(at, |_| ());
        }
        let ticket = format!("t{}", self.actors[at].run);
        let spec = GateSpec {
            kind: GateKind::Entrypoint(&ticket),
            conditions: &self.actors[at].spec.until,
            fail_fast: false,
            on_timeout: OnTimeout::Fail,
        };
        let decision = decide(&PodView::Snapshot(board, Source::Board), &spec, &Observations::default());
        if let Decision::Open(_) = decision {
            self.check_opening(at);
            let has_parent = self.actors[at].has_parent;
            self.write(at, |report| {
                (report.gate, report.started, report.is_parent) = (Some(GateState::Opened), true, has_parent);
            });
            self.actors[at].is_tethered = keeps_tether || self.actors[at].has_parent;
            self.change(at, Process::Program);
            // The sidecar notices a released tether within milliseconds.
            if !self.actors[at].is_tethered {
                self.observe(at, false);
            }
        }
    }
}

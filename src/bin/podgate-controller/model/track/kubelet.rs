//! Handles the kubelet's status of a container. The status may be late or belong to another incarnation.

use super::{ContainerTrack, EARLY_DROP_WINDOW, Kubelet, Termination, TetherState};
use podgate::core::report::Report;
use std::time::Instant;

impl ContainerTrack {
    /// Stores the kubelet's status and derives ends and restarts of the container.
    pub(crate) fn on_kubelet_status(&mut self, status: &Kubelet, now: Instant) {
        let before = self.kubelet_status.replace(status.clone()).and_then(|status| status.running_id);
        let is_gate = self.ticket.is_some();
        match (&status.termination, &status.running_id) {
            (Some((id, _)), _) if self.superseded_id.as_ref() == Some(id) => {}
            // The tether is held, and the kubelet never showed the ended id as running. The end therefore belongs to an
            // earlier incarnation.
            (Some((id, _)), _) if self.tether == TetherState::Held && before.as_ref() != Some(id) => {
                self.superseded_id = Some(id.clone());
            }
            (Some((id, code)), _) => match &mut self.termination {
                Some(end) if end.container_id.as_ref().is_none_or(|known| known == id) => {
                    (end.container_id, end.exit_code) = (Some(id.clone()), Some(*code));
                }
                _ => {
                    self.tether = TetherState::Free;
                    self.mark_ended(Termination {
                        container_id: Some(id.clone()),
                        exit_code: Some(*code),
                        is_agent_evidence: false,
                    });
                }
            },
            (None, Some(id)) => {
                match &mut self.termination {
                    // The kubelet does not show the end yet. Its status can be very late, especially while the Pod
                    // terminates.
                    Some(end) if end.is_agent_evidence && end.container_id.as_ref().is_none_or(|gone| gone == id) => {
                        end.container_id = Some(id.clone())
                    }
                    // The end belongs to an earlier incarnation. Usually a new gate's report has already cleared the
                    // end. If that report came before the end and the gate has no tether, `check_untethered` accepts
                    // the report later.
                    Some(end) if is_gate && !end.is_agent_evidence && end.container_id.as_ref() != Some(id) => {
                        self.termination = None
                    }
                    _ if is_gate => {}
                    _ => {
                        let is_new = before.is_some_and(|old| old != *id && Some(&old) != self.superseded_id.as_ref());
                        if self.termination.take().is_some() || is_new {
                            self.note_restart();
                        }
                    }
                }
            }
            _ => {}
        }
        if self.has_ended() {
            self.ended_at.get_or_insert(now);
        } else if self.is_running_per_kubelet() {
            self.ended_at = None;
        }
        self.check_untethered(now);
    }

    /// Handles the report of a program without a tether. The report does not count after a restart of the sidecar or a
    /// wrongly detected end. The report counts again after the kubelet has shown the program running for
    /// `EARLY_DROP_WINDOW` and no new gate has reported.
    fn check_untethered(&mut self, now: Instant) {
        let has_opened = self.raw_report.as_ref().is_some_and(Report::has_gate_opened);
        let candidate = self.tether == TetherState::Free && self.termination.is_none() && has_opened;
        let Some(id) = self.running_id().filter(|_| candidate) else {
            self.untethered_since = None;
            return;
        };
        match &self.untethered_since {
            Some((_, known)) if *known == id => {}
            _ => self.untethered_since = Some((now, id)),
        }
    }

    /// Returns the time for the next [`tick`](ContainerTrack::tick); `None` if no time limit is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.untethered_since.as_ref().map(|(since, _)| *since + EARLY_DROP_WINDOW)
    }

    pub(crate) fn tick(&mut self, epoch: &str, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.untethered_since = None;
            self.tether = TetherState::Untethered;
            self.report = self.raw_report.clone().filter(|report| self.is_current(report, epoch));
        }
    }
}

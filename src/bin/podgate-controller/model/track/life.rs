//! The life of a container's current incarnation. No I/O.

use podgate::core::container::Mode;
use std::time::{Duration, Instant};

/// Time after the opening of a gate in which a released tether does not count as the container's end. Some programs
/// close inherited descriptors at their start. Also the time for which the kubelet must show a program as running, if
/// there is no other evidence.
pub(super) const EARLY_TETHER_DROP_WINDOW: Duration = Duration::from_secs(2);

/// Life of a container's current incarnation. [`apply`](Life::apply) is the only function that changes it:
///
/// | event | `Free` | `Tethered` | `Untethered` | `Ended` |
/// |---|---|---|---|---|
/// | `Ticket`, the first one | `Free` | `Free` | `Free` | **new** `Free` |
/// | `Ticket`, a further one | **new** `Free` | **new** `Free` | **new** `Free` | **new** `Free` |
/// | `Ticket`, of a gate that may have ended | as above | as above | as above | by the kubelet: nothing; else as above |
/// | `TetherTaken` | `Tethered` | | `Tethered` | without a gate: **new** `Tethered` |
/// | `GateClosed` | | `Free` | | |
/// | `RunsWithoutTether` | `Untethered` | `Untethered` | | |
/// | `TetherDropped` | | *end* | | |
/// | `ExitReported` | *end* | *end* | *end* | adds a missing code |
/// | `OtherProcess` (no gate) | **new** `Free` | **new** `Tethered` | **new** `Free` | |
/// | `ReportAfterEnd` (no gate) | | | | **new** `Free` |
/// | `KubeletEnded`, known as an earlier incarnation | | | | |
/// | `KubeletEnded`, never shown running | *end* | earlier | *end* | as the next row |
/// | `KubeletEnded` | *end* | *end* when the tether is free | *end* | same or first id: adds id and code, unless the agent has reported another code; other id: *end* |
/// | `KubeletRunning`, same id or first id | | | | by the agent: keeps the id |
/// | `KubeletRunning`, other id | no gate: **new**, same | no gate: **new**, same | no gate: **new**, same | gate: `Free`, if by the kubelet; hook: nothing, if by the agent; else **new** `Free` |
///
/// An empty cell changes nothing. **new** counts a restart; *end* is the state `Ended`; "earlier" remembers the id as
/// that of an earlier incarnation, whose end is then ignored.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) phase: Phase,
    /// Mode of the container. The tickets of a gate identify the incarnations, and a hook reports each start.
    pub(super) mode: Mode,
    /// Id of the container that the kubelet shows running, and the time since which it has been shown in this phase.
    shown: Option<(String, Instant)>,
    /// Container id of an earlier incarnation, whose end is ignored.
    pub(super) superseded_id: Option<String>,
    /// Id and exit code of an end that the kubelet has shown while the container was tethered. It is the end of an
    /// earlier incarnation unless the tether is released.
    shown_end: Option<(String, i32)>,
}

/// Phase of an incarnation.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Phase {
    /// No process holds the tether, and no end was observed. In this phase, the report of an open gate does not count.
    #[default]
    Free,
    /// A process of the container holds the tether, so the container runs.
    Tethered,
    /// The program has closed the tether and still runs. Only the kubelet can report the program's end.
    Untethered,
    /// The incarnation has ended.
    Ended(End),
}

/// End of an incarnation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    container_id: Option<String>,
    /// `None` until the agent or the kubelet has reported the code.
    pub(super) exit_code: Option<i32>,
    /// True if the end was derived from the tether or the agent's report, not from the kubelet.
    by_agent: bool,
    /// Time at which the end was observed.
    pub(super) at: Instant,
}

/// An observation that can change the life of a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// A gate has reported a ticket. `is_first` means that this run of the sidecar has read no other ticket.
    /// `may_have_ended` means that the gate is open and no process holds the tether.
    Ticket { is_first: bool, may_have_ended: bool },
    /// A process holds the tether.
    TetherTaken,
    /// No process holds the tether, and the gate is closed, so the program has not started.
    GateClosed,
    /// No process holds the tether, so the process that held it has ended.
    TetherDropped,
    /// No process holds the tether, but the program may run: the gate has just opened, the port listens, a probe has
    /// passed, or the kubelet has shown the program running for [`EARLY_TETHER_DROP_WINDOW`].
    RunsWithoutTether,
    /// The agent, as the parent of the command, has reported the command's exit code.
    ExitReported(i32),
    /// A report names another process 1 than the last report.
    OtherProcess,
    /// A report was written after an end that was known before.
    ReportAfterEnd,
    /// The kubelet shows the end of the container with this id.
    KubeletEnded(String, i32),
    /// The kubelet shows the container with this id running.
    KubeletRunning(String),
    /// The kubelet shows the container neither running nor ended.
    KubeletShowsNothing,
}

/// Consequence of an event for the evidence about the container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Effect {
    Nothing,
    /// The incarnation has ended. Its evidence no longer counts.
    Ended,
    /// A new incarnation has begun. The evidence about the earlier one no longer counts.
    Restarted,
}

impl Life {
    /// Returns the end of the incarnation; `None` before its end.
    pub(super) fn end(&self) -> Option<&End> {
        if let Phase::Ended(end) = &self.phase { Some(end) } else { None }
    }

    /// Returns the time since which the kubelet shows the container running in this phase.
    pub(super) fn shown_running_since(&self) -> Option<Instant> {
        self.shown.as_ref().map(|(_, since)| *since)
    }

    /// Applies an event. The table at [`Life`] has a row for each event.
    pub(super) fn apply(&mut self, event: Event, now: Instant) -> Effect {
        let before = self.shown.as_ref().map(|(id, _)| id.clone());
        match &event {
            Event::KubeletEnded(..) | Event::KubeletShowsNothing => self.shown = None,
            Event::KubeletRunning(id) => {
                self.shown_end = None;
                if before.as_ref() != Some(id) {
                    self.shown = Some((id.clone(), now));
                }
            }
            _ => {}
        }
        let has_gate = self.mode == Mode::Entrypoint;
        let has_hook = self.mode == Mode::PostStart;
        match (&mut self.phase, event) {
            // The end may be that of the gate with this ticket. If it is not, the kubelet shows another id running.
            (Phase::Ended(end), Event::Ticket { may_have_ended: true, .. }) if !end.by_agent => Effect::Nothing,
            (Phase::Ended(_), Event::Ticket { .. }) | (_, Event::Ticket { is_first: false, .. }) => {
                self.restart(Phase::Free, before, now)
            }
            (_, Event::Ticket { is_first: true, .. }) => self.enter(Phase::Free, now),

            (Phase::Free | Phase::Untethered, Event::TetherTaken) => self.enter(Phase::Tethered, now),
            // The next incarnation of a container with a gate starts with a new ticket. A hook has only the tether.
            (Phase::Ended(_), Event::TetherTaken) if !has_gate => self.restart(Phase::Tethered, before, now),

            (Phase::Tethered, Event::GateClosed | Event::RunsWithoutTether | Event::TetherDropped)
                if self.shown_end.is_some() =>
            {
                let (id, code) = self.shown_end.take().unzip();
                self.finish(id, code, false, now)
            }
            (Phase::Tethered, Event::GateClosed) => self.enter(Phase::Free, now),
            (Phase::Free | Phase::Tethered, Event::RunsWithoutTether) => self.enter(Phase::Untethered, now),
            (Phase::Tethered, Event::TetherDropped) => self.finish(before, None, true, now),

            (Phase::Free | Phase::Tethered | Phase::Untethered, Event::ExitReported(code)) => {
                self.finish(before, Some(code), true, now)
            }
            (Phase::Ended(end), Event::ExitReported(code)) => {
                end.exit_code = end.exit_code.or(Some(code));
                Effect::Nothing
            }

            (Phase::Tethered, Event::OtherProcess) => self.restart(Phase::Tethered, before, now),
            (Phase::Free | Phase::Untethered, Event::OtherProcess) | (Phase::Ended(_), Event::ReportAfterEnd) => {
                self.restart(Phase::Free, before, now)
            }

            (_, Event::KubeletEnded(id, _)) if self.superseded_id.as_ref() == Some(&id) => Effect::Nothing,
            // The container is tethered, and the kubelet never showed the ended id running. The end therefore belongs
            // to an earlier incarnation.
            (Phase::Tethered, Event::KubeletEnded(id, _)) if before.as_ref() != Some(&id) => {
                self.superseded_id = Some(id);
                Effect::Nothing
            }
            (Phase::Tethered, Event::KubeletEnded(id, code)) => {
                self.shown_end = Some((id, code));
                Effect::Nothing
            }
            (Phase::Ended(end), Event::KubeletEnded(id, code)) if end.may_be(&id) => {
                // An agent exits with the code that it has reported, so another code belongs to an earlier incarnation.
                if end.exit_code.is_none_or(|known| known == code) {
                    (end.container_id, end.exit_code) = (Some(id), Some(code));
                }
                Effect::Nothing
            }
            (_, Event::KubeletEnded(id, code)) => self.finish(Some(id), Some(code), false, now),

            // The kubelet does not show the end yet. Its status can be very late, especially while the Pod terminates.
            (Phase::Ended(end), Event::KubeletRunning(id)) if end.by_agent && end.may_be(&id) => {
                end.container_id = Some(id);
                Effect::Nothing
            }
            // In a container with a gate, only a new ticket starts the next incarnation, so the end belongs to an
            // earlier one. Usually the new gate's report has already cleared the end.
            (Phase::Ended(end), Event::KubeletRunning(id)) if has_gate && !end.by_agent && !end.may_be(&id) => {
                self.enter(Phase::Free, now)
            }
            // A hook reports each start. Its tether has shown this end, so the status can be that of an earlier run.
            (Phase::Ended(end), Event::KubeletRunning(_)) if has_hook && end.by_agent => Effect::Nothing,
            (Phase::Ended(_), Event::KubeletRunning(_)) if !has_gate => {
                self.enter(Phase::Free, now);
                Effect::Restarted
            }
            (_, Event::KubeletRunning(id))
                if !has_gate && before.is_some_and(|old| old != id && self.superseded_id.as_ref() != Some(&old)) =>
            {
                Effect::Restarted
            }
            _ => Effect::Nothing,
        }
    }

    fn enter(&mut self, phase: Phase, now: Instant) -> Effect {
        self.phase = phase;
        self.shown.iter_mut().for_each(|(_, since)| *since = now);
        Effect::Nothing
    }

    fn restart(&mut self, phase: Phase, shown_id: Option<String>, now: Instant) -> Effect {
        let ended_id = self.end().and_then(|end| end.container_id.clone());
        self.superseded_id = ended_id.or(shown_id);
        self.shown_end = None;
        self.enter(phase, now);
        Effect::Restarted
    }

    fn finish(&mut self, container_id: Option<String>, exit_code: Option<i32>, by_agent: bool, at: Instant) -> Effect {
        self.phase = Phase::Ended(End { container_id, exit_code, by_agent, at });
        Effect::Ended
    }
}

impl End {
    /// Returns true if the container with this id may be the one that has ended.
    fn may_be(&self, id: &str) -> bool {
        self.container_id.as_deref().is_none_or(|known| known == id)
    }
}

#[cfg(test)]
mod tests;

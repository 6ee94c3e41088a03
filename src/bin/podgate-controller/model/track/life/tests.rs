//! Tests of the life of a container, row by row.

use super::*;
use crate::clock::now;

const GATE: Mode = Mode::Entrypoint;

fn ended(id: Option<&str>, code: Option<i32>, by_agent: bool) -> Phase {
    Phase::Ended(End { container_id: id.map(str::to_owned), exit_code: code, by_agent, at: now() })
}

/// Writes a phase without the time of its end.
fn name(phase: &Phase) -> String {
    match phase {
        Phase::Free => "free".to_owned(),
        Phase::Tethered => "tethered".to_owned(),
        Phase::Untethered => "untethered".to_owned(),
        Phase::Ended(End { container_id, exit_code, by_agent, .. }) => {
            let by = if *by_agent { "agent" } else { "kubelet" };
            format!("{} {} by {by}", container_id.as_deref().unwrap_or("?"), exit_code.unwrap_or(-1))
        }
    }
}

fn ticket(is_first: bool, may_have_ended: bool) -> Event {
    Event::Ticket { is_first, may_have_ended }
}

/// The rows of the table at [`Life`]. Each result is for the phases free, tethered, untethered, and ended by the agent
/// without an exit code. `*` marks a restart, `-` no change.
#[test]
fn table() {
    let (running, ended_as) =
        (|id: &str| Event::KubeletRunning(id.to_owned()), |id: &str, code| Event::KubeletEnded(id.to_owned(), code));
    for (mode, event, results) in [
        (GATE, ticket(true, false), ["-", "free", "free", "free*"]),
        (GATE, ticket(false, false), ["-*", "free*", "free*", "free*"]),
        (GATE, ticket(true, true), ["-", "free", "free", "free*"]),
        (GATE, Event::TetherTaken, ["tethered", "-", "tethered", "-"]),
        (Mode::None, Event::TetherTaken, ["tethered", "-", "tethered", "tethered*"]),
        (GATE, Event::GateClosed, ["-", "free", "-", "-"]),
        (GATE, Event::RunsWithoutTether, ["untethered", "untethered", "-", "-"]),
        (GATE, Event::TetherDropped, ["-", "c1 -1 by agent", "-", "-"]),
        (GATE, Event::ExitReported(3), ["c1 3 by agent", "c1 3 by agent", "c1 3 by agent", "c1 3 by agent"]),
        (Mode::None, Event::OtherProcess, ["-*", "-*", "free*", "-"]),
        (Mode::None, Event::ReportAfterEnd, ["-", "-", "-", "free*"]),
        (GATE, ended_as("c0", 3), ["-", "-", "-", "-"]),
        (GATE, ended_as("c9", 3), ["c9 3 by kubelet", "-", "c9 3 by kubelet", "c9 3 by kubelet"]),
        (GATE, ended_as("c1", 3), ["c1 3 by kubelet", "-", "c1 3 by kubelet", "c1 3 by agent"]),
        (GATE, running("c1"), ["-", "-", "-", "-"]),
        (GATE, running("c2"), ["-", "-", "-", "-"]),
        (Mode::None, running("c2"), ["-*", "-*", "-*", "free*"]),
        (Mode::PostStart, running("c2"), ["-*", "-*", "-*", "-"]),
        (GATE, Event::KubeletShowsNothing, ["-", "-", "-", "-"]),
    ] {
        let phases = [Phase::Free, Phase::Tethered, Phase::Untethered, ended(Some("c1"), None, true)];
        for (phase, expected) in phases.into_iter().zip(results) {
            let before = name(&phase);
            let (shown, superseded_id) = (Some(("c1".to_owned(), now())), Some("c0".to_owned()));
            let mut life = Life { phase, mode, shown, superseded_id, ..Life::default() };
            let effect = life.apply(event.clone(), now());
            let after = name(&life.phase);
            let found = if after == before { "-" } else { &after };
            let mark = if effect == Effect::Restarted { "*" } else { "" };
            assert_eq!(format!("{found}{mark}"), expected, "{before}: {event:?}");
            let has_ended = effect == Effect::Ended;
            assert_eq!(has_ended, after.contains(" by ") && !before.contains(" by ") || after.starts_with("c9"));
        }
    }
}

/// The kubelet's status of an ended container can be that of an earlier or of the next incarnation.
#[test]
fn ends_are_matched_by_id_and_code() {
    let running = |id: &str| Event::KubeletRunning(id.to_owned());
    let ended_as = |id: &str, code| Event::KubeletEnded(id.to_owned(), code);
    for (phase, mode, event, expected) in [
        (ended(None, None, true), GATE, running("c1"), "c1 -1 by agent"),
        (ended(None, Some(0), true), GATE, ended_as("c1", 0), "c1 0 by agent"),
        // The agent has reported another code, so the kubelet shows the end of another incarnation.
        (ended(None, Some(0), true), GATE, ended_as("c1", 75), "? 0 by agent"),
        (ended(Some("c1"), Some(1), false), GATE, ended_as("c2", 2), "c2 2 by kubelet"),
        (ended(Some("c1"), Some(1), false), GATE, running("c2"), "free"),
        // The tether has not shown this end, so the status is the first sign of the next start.
        (ended(Some("c1"), Some(1), false), Mode::PostStart, running("c2"), "free"),
        (ended(Some("c1"), Some(1), false), GATE, running("c1"), "c1 1 by kubelet"),
        (ended(Some("c1"), Some(1), false), GATE, ticket(true, true), "c1 1 by kubelet"),
        (ended(Some("c1"), Some(1), false), GATE, ticket(false, true), "c1 1 by kubelet"),
    ] {
        let mut life = Life { phase, mode, ..Life::default() };
        life.apply(event.clone(), now());
        assert_eq!(name(&life.phase), expected, "{event:?}");
    }
}

/// A later incarnation has reported, so the end of the earlier one no longer counts. The later one holds its tether, so
/// it runs. The end of an id that the kubelet never showed running must then belong to an earlier incarnation.
#[test]
fn end_of_an_earlier_incarnation_is_ignored() {
    let mut life = Life { mode: GATE, ..Life::default() };
    life.apply(ticket(true, false), now());
    life.apply(Event::KubeletRunning("c1".to_owned()), now());
    life.apply(ticket(false, false), now());
    life.apply(Event::TetherTaken, now());
    for id in ["c1", "c0", "c0"] {
        assert_eq!(life.apply(Event::KubeletEnded(id.to_owned(), 1), now()), Effect::Nothing, "{id}");
    }
    assert_eq!(life.phase, Phase::Tethered);
}

/// The kubelet's status is late: it can show the end of an earlier incarnation after a later one has reported.
#[test]
fn end_counts_only_if_the_tether_is_free() {
    for drop in [Event::GateClosed, Event::RunsWithoutTether, Event::TetherDropped] {
        let mut life = Life { phase: Phase::Tethered, mode: GATE, ..Life::default() };
        life.apply(Event::KubeletRunning("c1".to_owned()), now());
        assert_eq!(life.apply(Event::KubeletEnded("c1".to_owned(), 7), now()), Effect::Nothing);
        assert_eq!(life.apply(drop, now()), Effect::Ended);
        assert_eq!(name(&life.phase), "c1 7 by kubelet");
    }
}

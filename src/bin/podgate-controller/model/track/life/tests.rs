//! Tests of the life of a container, row by row.

use super::*;
use crate::clock::now;

fn ended(id: Option<&str>, code: Option<i32>, by_agent: bool) -> Phase {
    Phase::Ended(End { container_id: id.map(str::to_owned), exit_code: code, by_agent, at: now() })
}

/// Writes a phase without the time of its end.
fn name(phase: &Phase) -> String {
    match phase {
        Phase::Free => "free".to_owned(),
        Phase::Held => "held".to_owned(),
        Phase::Untethered => "untethered".to_owned(),
        Phase::Ended(End { container_id, exit_code, by_agent, .. }) => {
            let by = if *by_agent { "agent" } else { "kubelet" };
            format!("{} {} by {by}", container_id.as_deref().unwrap_or("?"), exit_code.unwrap_or(-1))
        }
    }
}

fn mode(has_gate: bool) -> Mode {
    if has_gate { Mode::Entrypoint } else { Mode::None }
}

fn ticket(is_first: bool, may_have_ended: bool) -> Event {
    Event::Ticket { is_first, may_have_ended }
}

/// The rows of the table at [`Life`]. Each result is for the phases free, held, untethered, and ended by the agent
/// without an exit code. `*` marks a restart, `-` no change.
#[test]
fn table() {
    let (running, ended_as) =
        (|id: &str| Event::KubeletRunning(id.to_owned()), |id: &str, code| Event::KubeletEnded(id.to_owned(), code));
    for (has_gate, event, results) in [
        (true, ticket(true, false), ["-", "free", "free", "free*"]),
        (true, ticket(false, false), ["-*", "free*", "free*", "free*"]),
        (true, ticket(true, true), ["-", "free", "free", "free*"]),
        (true, Event::TetherHeld, ["held", "-", "held", "-"]),
        (false, Event::TetherHeld, ["held", "-", "held", "held*"]),
        (true, Event::GateClosed, ["-", "free", "-", "-"]),
        (true, Event::RunsWithoutTether, ["untethered", "untethered", "-", "-"]),
        (true, Event::TetherDropped, ["-", "c1 -1 by agent", "-", "-"]),
        (true, Event::ExitReported(3), ["c1 3 by agent", "c1 3 by agent", "c1 3 by agent", "c1 3 by agent"]),
        (false, Event::OtherProcess, ["-*", "-*", "free*", "-"]),
        (false, Event::ReportAfterEnd, ["-", "-", "-", "free*"]),
        (true, ended_as("c0", 3), ["-", "-", "-", "-"]),
        (true, ended_as("c9", 3), ["c9 3 by kubelet", "-", "c9 3 by kubelet", "c9 3 by kubelet"]),
        (true, ended_as("c1", 3), ["c1 3 by kubelet", "-", "c1 3 by kubelet", "c1 3 by agent"]),
        (true, running("c1"), ["-", "-", "-", "-"]),
        (true, running("c2"), ["-", "-", "-", "-"]),
        (false, running("c2"), ["-*", "-*", "-*", "free*"]),
        (true, Event::KubeletShowsNothing, ["-", "-", "-", "-"]),
    ] {
        let phases = [Phase::Free, Phase::Held, Phase::Untethered, ended(Some("c1"), None, true)];
        for (phase, expected) in phases.into_iter().zip(results) {
            let before = name(&phase);
            let (shown, superseded_id) = (Some(("c1".to_owned(), now())), Some("c0".to_owned()));
            let mut life = Life { phase, mode: mode(has_gate), shown, superseded_id, ..Life::default() };
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
    for (phase, has_gate, event, expected) in [
        (ended(None, None, true), true, running("c1"), "c1 -1 by agent"),
        (ended(None, Some(0), true), true, ended_as("c1", 0), "c1 0 by agent"),
        // The agent has reported another code, so the kubelet shows the end of another incarnation.
        (ended(None, Some(0), true), true, ended_as("c1", 75), "? 0 by agent"),
        (ended(Some("c1"), Some(1), false), true, ended_as("c2", 2), "c2 2 by kubelet"),
        (ended(Some("c1"), Some(1), false), true, running("c2"), "free"),
        (ended(Some("c1"), Some(1), false), true, running("c1"), "c1 1 by kubelet"),
        (ended(Some("c1"), Some(1), false), true, ticket(true, true), "c1 1 by kubelet"),
        (ended(Some("c1"), Some(1), false), true, ticket(false, true), "c1 1 by kubelet"),
    ] {
        let mut life = Life { phase, mode: mode(has_gate), ..Life::default() };
        life.apply(event.clone(), now());
        assert_eq!(name(&life.phase), expected, "{event:?}");
    }
}

/// A later incarnation has reported, so the end of the earlier one counts no more. The tether of the running one is
/// held, so the end of an id that never ran is that of an earlier one too.
#[test]
fn end_of_an_earlier_incarnation_is_ignored() {
    let mut life = Life::default();
    life.apply(ticket(true, false), now());
    life.apply(Event::KubeletRunning("c1".to_owned()), now());
    life.apply(ticket(false, false), now());
    life.apply(Event::TetherHeld, now());
    for id in ["c1", "c0", "c0"] {
        assert_eq!(life.apply(Event::KubeletEnded(id.to_owned(), 1), now()), Effect::Nothing, "{id}");
    }
    assert_eq!(life.phase, Phase::Held);
}

/// The kubelet's status is late: it can show the end of an earlier incarnation after a later one has reported.
#[test]
fn end_counts_only_if_the_tether_is_free() {
    for drop in [Event::GateClosed, Event::RunsWithoutTether, Event::TetherDropped] {
        let mut life = Life { phase: Phase::Held, mode: Mode::Entrypoint, ..Life::default() };
        life.apply(Event::KubeletRunning("c1".to_owned()), now());
        assert_eq!(life.apply(Event::KubeletEnded("c1".to_owned(), 7), now()), Effect::Nothing);
        assert_eq!(life.apply(drop, now()), Effect::Ended);
        assert_eq!(name(&life.phase), "c1 7 by kubelet");
    }
}

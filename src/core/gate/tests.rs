use super::*;
use crate::core::snapshot::{REASON_ENDED, Unreadable};

fn snapshot(phase: Phase, states: &[(&str, State)]) -> Snapshot {
    let order = ["db", "api", "web"].map(str::to_owned).into();
    Snapshot { phase, order, ..Snapshot::new("0-0-0".parse().unwrap(), "e", states) }
}

fn board(snapshot: Snapshot) -> PodView {
    PodView::Snapshot(snapshot, Source::Board)
}

const HOOK: GateKind<'_> = GateKind::Hook("api");
const GATE: GateKind<'_> = GateKind::Entrypoint("t1");

fn until(text: &str) -> WaitCondition {
    text.parse().unwrap()
}

/// Returns the decision of a gate or hook that waits for `on`.
fn decided(kind: GateKind<'_>, on: &str, view: &PodView, observed: &Observations) -> Decision {
    decide(view, &GateSpec { kind, conditions: &[until(on)], fail_fast: false }, observed)
}

/// Returns the decision of a gate or hook that has just begun to wait for `api`.
fn decide_at_start(kind: GateKind<'_>, view: &PodView) -> Decision {
    decided(kind, "api", view, &Observations::default())
}

fn is_closed(decision: &Decision) -> bool {
    matches!(decision, Decision::Closed(_))
}

#[test]
fn gate_opens_when_all_conditions_hold() {
    let starting = |state| board(snapshot(Phase::Starting, &[("db", State::Ready), ("api", state)]));
    assert_eq!(decide_at_start(HOOK, &starting(State::Ready)), Decision::Open(OpenReason::ConditionsMet));
    let closed = Decision::Closed(vec![Obstacle::WrongState(until("api"), State::Started)]);
    assert_eq!(decide_at_start(HOOK, &starting(State::Started)), closed);
    let refused = "tcp://h:1 refused".to_owned();
    let pending = Observations { pending_checks: vec![refused.clone()], ..Observations::default() };
    let closed = Decision::Closed(vec![Obstacle::CheckPending(refused)]);
    assert_eq!(decided(HOOK, "api", &starting(State::Ready), &pending), closed);
}

#[test]
fn pod_phase_opens_hooks_but_not_entrypoint_gates() {
    let started = board(snapshot(Phase::Started, &[("api", State::Started)]));
    assert_eq!(decide_at_start(HOOK, &started), Decision::Open(OpenReason::AlreadyStarted));
    assert!(is_closed(&decide_at_start(GATE, &started)));
    let deleted = board(snapshot(Phase::Terminating, &[("api", State::Ready)]));
    assert_eq!(decide_at_start(HOOK, &deleted), Decision::Open(OpenReason::PodTerminating));
    assert_eq!(decide_at_start(GATE, &deleted), Decision::GiveUp(GiveUpReason::PodDeleted));
}

#[test]
fn entrypoint_gate_opens_only_after_its_ticket_is_published() {
    for phase in [Phase::Starting, Phase::Started] {
        let mut s = snapshot(phase, &[("api", State::Ready)]);
        s.heard_tickets.insert("web".to_owned(), "t0".to_owned());
        assert!(is_closed(&decide_at_start(GATE, &board(s.clone()))));
        // The volume contains no tickets, so the gate can't wait for its own ticket.
        assert_eq!(
            decide_at_start(GATE, &PodView::Snapshot(s.clone(), Source::Volume)),
            Decision::Open(OpenReason::ConditionsMet)
        );
        s.heard_tickets.insert("web".to_owned(), "t1".to_owned());
        assert_eq!(decide_at_start(GATE, &board(s)), Decision::Open(OpenReason::ConditionsMet));
    }
}

#[test]
fn impossible_check_ends_the_wait() {
    let observed = Observations {
        impossible_check: Some("file:///run/1: /run/1.err exists".to_owned()),
        ..Observations::default()
    };
    let spec = GateSpec { kind: GATE, conditions: &[], fail_fast: false };
    let view = PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: SourceError::OtherSandbox };
    assert!(matches!(decide(&view, &spec, &observed), Decision::GiveUp(GiveUpReason::ImpossibleCheck(_))));
}

#[test]
fn hook_gives_up_if_a_restartable_predecessor_ended() {
    let mut s = snapshot(Phase::Starting, &[("db", State::Failed), ("api", State::Started), ("web", State::Failed)]);
    let over = Decision::GiveUp(GiveUpReason::PredecessorEnded("db".to_owned(), State::Failed));
    assert_eq!(decide_at_start(HOOK, &board(s.clone())), over);
    s.stuck.insert("db".to_owned(), REASON_ENDED.to_owned());
    assert!(is_closed(&decide_at_start(HOOK, &board(s.clone()))));
    s.states.insert("api".to_owned(), State::Ready);
    assert_eq!(decide_at_start(HOOK, &board(s)), Decision::Open(OpenReason::ConditionsMet));
}

#[test]
fn gate_fails_fast_only_if_requested() {
    for (state, stuck, ending) in [
        (State::Failed, REASON_ENDED, GiveUpReason::ContainerEnded(until("db"), State::Failed)),
        (State::Waiting, "ImagePullBackOff", GiveUpReason::ContainerStuck(until("db"), "ImagePullBackOff".to_owned())),
    ] {
        let mut s = snapshot(Phase::Starting, &[("db", state)]);
        s.stuck.insert("db".to_owned(), stuck.to_owned());
        let view = board(s);
        assert!(is_closed(&decided(GATE, "db", &view, &Observations::default())));
        let fast = GateSpec { kind: GATE, conditions: &[until("db")], fail_fast: true };
        assert_eq!(decide(&view, &fast, &Observations::default()), Decision::GiveUp(ending));
    }
}

#[test]
fn unknown_container_is_an_error_after_the_settle_time() {
    let s = snapshot(Phase::Starting, &[("db", State::Ready)]);
    let late = Observations { waited: SETTLE_TIME, ..Observations::default() };
    assert!(is_closed(&decided(HOOK, "ghost", &board(s.clone()), &Observations::default())));
    let over = Decision::GiveUp(GiveUpReason::NoSuchContainer("ghost".to_owned(), vec!["db".to_owned()]));
    assert_eq!(decided(HOOK, "ghost", &board(s.clone()), &late), over);
    assert!(is_closed(&decided(HOOK, "ghost", &PodView::Snapshot(s, Source::Volume), &late)));
}

#[test]
fn missing_snapshot_reports_the_error_of_each_source() {
    let view =
        PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: SourceError::Unreadable(Unreadable::Missing) };
    let Decision::Closed(why) = decide_at_start(HOOK, &view) else { panic!("open") };
    assert_eq!(why[1].to_string(), "the board belongs to another sandbox, the downward-API volume is missing");
    let spec = GateSpec { kind: HOOK, conditions: &[], fail_fast: false };
    assert_eq!(decide(&view, &spec, &Observations::default()), Decision::Open(OpenReason::ConditionsMet));
}

#[test]
fn fallback_check_replaces_a_dead_sidecar() {
    let view = board(snapshot(Phase::Starting, &[("api", State::Started)]));
    let dead = |fallback| {
        decided(HOOK, "api", &view, &Observations { controller: Controller::Dead(fallback), ..Observations::default() })
    };
    assert_eq!(dead(Some(Ok(()))), Decision::Open(OpenReason::FallbackPassed));
    let refused = "tcp://h:1 refused".to_owned();
    for (fallback, obstacle) in
        [(Some(Err(refused.clone())), Obstacle::FallbackFailed(refused)), (None, Obstacle::NoFallbackCheck)]
    {
        let Decision::Closed(why) = dead(fallback) else { panic!("open") };
        assert_eq!(why[1], obstacle);
    }
}

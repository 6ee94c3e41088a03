use super::*;
use crate::core::snapshot::REASON_ENDED;

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
fn hook_gives_up_if_a_restartable_predecessor_ended() {
    let mut s = snapshot(Phase::Starting, &[("db", State::Failed), ("api", State::Started), ("web", State::Failed)]);
    let over = Decision::GiveUp(GiveUpReason::PredecessorEnded("db".to_owned(), State::Failed));
    assert_eq!(decide_at_start(HOOK, &board(s.clone())), over);
    s.stuck.insert("db".to_owned(), REASON_ENDED.to_owned());
    assert!(is_closed(&decide_at_start(HOOK, &board(s.clone()))));
    s.states.insert("api".to_owned(), State::Ready);
    assert_eq!(decide_at_start(HOOK, &board(s)), Decision::Open(OpenReason::ConditionsMet));
}

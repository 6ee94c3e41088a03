//! A gate's decision: a function of what is believed of the pod, what the container has looked at by itself, and how long the
//! gate has waited. The reason is part of the result, so that the user can be told what the gate waits for.

use crate::core::exit::Exit;
use crate::core::snapshot::Snapshot;
use crate::core::sources::{PodView, Source, SourceError};
use crate::core::state::{Phase, State};
use crate::core::until::{ConditionStatus, WaitCondition};
use std::fmt;
use std::time::Duration;

/// How long a board may lack a container, or speak of another sandbox, before that is named.
pub const SETTLE_TIME: Duration = Duration::from_secs(2);

/// What a gate waits for, and under which rules.
#[derive(Debug, Clone)]
pub struct GateSpec<'a> {
    /// Where the gate stands.
    pub kind: GateKind<'a>,
    /// Conditions on containers; all must hold.
    pub conditions: &'a [WaitCondition],
    /// End as soon as a condition can't be met without help.
    pub fail_fast: bool,
}

/// Where a gate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind<'a> {
    /// In the postStart hook of this container: while it waits, the kubelet does nothing else for the pod.
    Hook(&'a str),
    /// In front of a container's command, with this ticket.
    Entrypoint(&'a str),
}

/// What the gate itself has seen, beside the sources.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// Checks that have not passed, each with what it last gave.
    pub pending_checks: Vec<String>,
    /// A check that can never pass.
    pub impossible_check: Option<String>,
    /// Whether the controller lives.
    pub controller: Controller,
    /// How long the gate has waited.
    pub waited: Duration,
}

/// What the gate has found of the controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Controller {
    /// It lives, or nothing says that it does not.
    #[default]
    Alive,
    /// It has died. Under a hook it can't come back, so the gate judges by its fallback check, if it has one: what that last
    /// gave, or `Ok` once it has passed.
    Dead(Option<Result<(), String>>),
}

/// Why a gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// All conditions hold.
    ConditionsMet,
    /// The pod had started before: this is the restart of one container, which must not freeze the others.
    AlreadyStarted,
    /// The pod is being deleted.
    PodTerminating,
    /// The controller is dead, and the fallback check has passed.
    FallbackPassed,
}

/// One reason why a gate is closed, in the words that its user reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The container is in a state that does not meet the condition.
    #[error("{0} (now {1})")]
    WrongState(WaitCondition, State),
    /// The same, and it can't leave that state by itself, for this reason.
    #[error("{0} (now {1}, {2})")]
    Stuck(WaitCondition, State, String),
    /// The source does not know the condition's container.
    #[error("{0} (unknown so far)")]
    UnknownContainer(WaitCondition),
    /// There is no source that could say whether the condition holds.
    #[error("{0}")]
    NoSnapshot(WaitCondition),
    /// What each source gives in place of a snapshot.
    #[error("the board {0}, the downward-API volume {1}")]
    SourceErrors(SourceError, SourceError),
    /// The conditions hold by a board that was written before the controller heard of this gate. A board at rest shows what the
    /// controller saw last, which may be long ago.
    #[error("the controller to look at them once more")]
    TicketNotHeard,
    /// The downward-API volume, which is frozen under a hook, is the only source.
    #[error("no board: under a hook the downward-API volume shows only what was published before")]
    FrozenVolume,
    /// The controller is dead, and the fallback check gives this.
    #[error("the controller is dead; fallback check {0}")]
    FallbackFailed(String),
    /// The controller is dead, and the hook has no fallback check.
    #[error("the controller is dead and can't come back under this hook; give --fallback-check")]
    NoFallbackCheck,
    /// The controller is dead.
    #[error("the controller is dead")]
    ControllerDead,
    /// A check has not passed.
    #[error("{0}")]
    CheckPending(String),
    /// The report, which the controller needs, can't be written.
    #[error("can't report to the controller ({0}); mount this container's own folder there")]
    ReportFailed(String),
}

/// Why a gate ends without its conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GiveUpReason {
    /// A container before this one has ended, and the kubelet restarts it only when the hook returns.
    #[error("{0} is {1}, and the kubelet restarts it only when this hook returns")]
    PredecessorEnded(String, State),
    /// The condition's container has ended and will not be started again.
    #[error("can never be met: {0}: it is {1} for good")]
    ContainerEnded(WaitCondition, State),
    /// The condition's container can't go on by itself, for this reason.
    #[error("can never be met: {0}: it is stuck in {1}")]
    ContainerStuck(WaitCondition, String),
    /// A check can never pass.
    #[error("can never be met: {0}")]
    ImpossibleCheck(String),
    /// A condition names a container that the pod does not have; it has these.
    #[error("no such container: {0}; the pod has {list}", list = .1.join(", "))]
    NoSuchContainer(String, Vec<String>),
    /// The pod is being deleted, and the command that stands behind the gate is never run.
    #[error("the pod is being deleted")]
    PodDeleted,
}

impl GiveUpReason {
    /// The exit code that it leads to.
    pub fn exit_code(&self) -> Exit {
        match self {
            GiveUpReason::NoSuchContainer(..) => Exit::BadSetup,
            GiveUpReason::PodDeleted => Exit::Terminated,
            GiveUpReason::PredecessorEnded(..)
            | GiveUpReason::ContainerEnded(..)
            | GiveUpReason::ContainerStuck(..)
            | GiveUpReason::ImpossibleCheck(_) => Exit::NeverMet,
        }
    }
}

/// What a gate does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It lets go.
    Open(OpenReason),
    /// It waits, for these reasons.
    Closed(Vec<Obstacle>),
    /// It gives up.
    GiveUp(GiveUpReason),
}

/// Decides.
pub fn decide(view: &PodView, terms: &GateSpec<'_>, waiter: &Observations) -> Decision {
    let mut obstacles = Vec::new();
    match view {
        PodView::Snapshot(snapshot, source) => {
            match (snapshot.phase, terms.kind) {
                (Phase::Terminating, GateKind::Hook(_)) => return Decision::Open(OpenReason::PodTerminating),
                (Phase::Terminating, GateKind::Entrypoint(_)) => return Decision::GiveUp(GiveUpReason::PodDeleted),
                (Phase::Started, GateKind::Hook(_)) => return Decision::Open(OpenReason::AlreadyStarted),
                (Phase::Starting | Phase::Started, _) => {}
            }
            let knows_all = *source == Source::Board && waiter.waited >= SETTLE_TIME && !snapshot.states.is_empty();
            for until in terms.conditions {
                let state = snapshot.states.get(&until.container).copied();
                let stuck = snapshot.stuck.get(&until.container).cloned();
                obstacles.push(match (until.status(snapshot), state, stuck) {
                    (ConditionStatus::Met, ..) => continue,
                    (ConditionStatus::Never, Some(state), _) if terms.fail_fast => {
                        return Decision::GiveUp(GiveUpReason::ContainerEnded(until.clone(), state));
                    }
                    (ConditionStatus::NotYet, _, Some(stuck)) if terms.fail_fast => {
                        return Decision::GiveUp(GiveUpReason::ContainerStuck(until.clone(), stuck));
                    }
                    (_, None, _) if knows_all => {
                        let known = snapshot.states.keys().cloned().collect();
                        return Decision::GiveUp(GiveUpReason::NoSuchContainer(until.container.clone(), known));
                    }
                    (_, None, _) => Obstacle::UnknownContainer(until.clone()),
                    (_, Some(state), Some(stuck)) => Obstacle::Stuck(until.clone(), state, stuck),
                    (_, Some(state), None) => Obstacle::WrongState(until.clone(), state),
                });
            }
            match (terms.kind, source) {
                (GateKind::Entrypoint(ticket), Source::Board)
                    if obstacles.is_empty() && !terms.conditions.is_empty() && !snapshot.has_heard_ticket(ticket) =>
                {
                    obstacles.push(Obstacle::TicketNotHeard);
                }
                (GateKind::Hook(own), _) if !obstacles.is_empty() => {
                    if let Some((name, state)) = ended_predecessor(snapshot, own) {
                        return Decision::GiveUp(GiveUpReason::PredecessorEnded(name, state));
                    }
                    if *source == Source::Volume {
                        obstacles.push(Obstacle::FrozenVolume);
                    }
                }
                _ => {}
            }
        }
        PodView::NoSnapshot { board, volume } => {
            obstacles.extend(terms.conditions.iter().cloned().map(Obstacle::NoSnapshot));
            if !terms.conditions.is_empty() {
                obstacles.push(Obstacle::SourceErrors(board.clone(), volume.clone()));
            }
        }
    }
    if let Some(what) = &waiter.impossible_check {
        return Decision::GiveUp(GiveUpReason::ImpossibleCheck(what.clone()));
    }
    match (&waiter.controller, terms.kind) {
        (Controller::Dead(Some(Ok(()))), _) if waiter.pending_checks.is_empty() => {
            return Decision::Open(OpenReason::FallbackPassed);
        }
        // Checks alone need no controller.
        _ if obstacles.is_empty() => {}
        (Controller::Dead(Some(Err(why))), _) => obstacles.push(Obstacle::FallbackFailed(why.clone())),
        (Controller::Dead(None), GateKind::Hook(_)) => obstacles.push(Obstacle::NoFallbackCheck),
        (Controller::Dead(None), GateKind::Entrypoint(_)) => obstacles.push(Obstacle::ControllerDead),
        (Controller::Dead(Some(Ok(()))) | Controller::Alive, _) => {}
    }
    obstacles.extend(waiter.pending_checks.iter().cloned().map(Obstacle::CheckPending));
    if obstacles.is_empty() { Decision::Open(OpenReason::ConditionsMet) } else { Decision::Closed(obstacles) }
}

/// The first container before `own` in the order that has ended and that the kubelet would start again.
fn ended_predecessor(snapshot: &Snapshot, own: &str) -> Option<(String, State)> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    let restarts = before.filter(|name| !snapshot.has_ended_for_good(name));
    restarts.filter_map(|name| Some((name.clone(), *snapshot.states.get(name)?))).find(|(_, state)| state.has_ended())
}

impl fmt::Display for OpenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenReason::ConditionsMet => "all conditions hold",
            OpenReason::AlreadyStarted => "the pod has started before, and a restart waits for nobody",
            OpenReason::PodTerminating => "the pod is being deleted",
            OpenReason::FallbackPassed => "the controller is dead, and the fallback check has passed",
        })
    }
}

#[cfg(test)]
mod tests {
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

    /// Decides for a gate or hook that waits for `on`.
    fn decided(kind: GateKind<'_>, on: &str, view: &PodView, waiter: &Observations) -> Decision {
        decide(view, &GateSpec { kind, conditions: &[until(on)], fail_fast: false }, waiter)
    }

    /// Decides for one that has just begun to wait for `api`.
    fn decide_at_start(kind: GateKind<'_>, view: &PodView) -> Decision {
        decided(kind, "api", view, &Observations::default())
    }

    fn is_closed(decision: &Decision) -> bool {
        matches!(decision, Decision::Closed(_))
    }

    #[test]
    fn opens_when_all_conditions_hold() {
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
    fn the_pods_phase_opens_hooks_and_never_an_entrypoint_gate() {
        let started = board(snapshot(Phase::Started, &[("api", State::Started)]));
        assert_eq!(decide_at_start(HOOK, &started), Decision::Open(OpenReason::AlreadyStarted));
        assert!(is_closed(&decide_at_start(GATE, &started)));
        let deleted = board(snapshot(Phase::Terminating, &[("api", State::Ready)]));
        assert_eq!(decide_at_start(HOOK, &deleted), Decision::Open(OpenReason::PodTerminating));
        assert_eq!(decide_at_start(GATE, &deleted), Decision::GiveUp(GiveUpReason::PodDeleted));
    }

    #[test]
    fn an_entrypoint_gate_opens_only_on_what_was_judged_since_it_was_heard() {
        for phase in [Phase::Starting, Phase::Started] {
            let mut s = snapshot(phase, &[("api", State::Ready)]);
            s.heard_tickets.insert("web".to_owned(), "t0".to_owned());
            assert!(is_closed(&decide_at_start(GATE, &board(s.clone()))));
            // The volume alone has no such word, and its guarantee is weaker.
            assert_eq!(
                decide_at_start(GATE, &PodView::Snapshot(s.clone(), Source::Volume)),
                Decision::Open(OpenReason::ConditionsMet)
            );
            s.heard_tickets.insert("web".to_owned(), "t1".to_owned());
            assert_eq!(decide_at_start(GATE, &board(s)), Decision::Open(OpenReason::ConditionsMet));
        }
    }

    #[test]
    fn a_check_that_can_never_pass_ends_the_wait() {
        let waiter =
            Observations { impossible_check: Some("file:///run/1.err is there".to_owned()), ..Observations::default() };
        let terms = GateSpec { kind: GATE, conditions: &[], fail_fast: false };
        let view = PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: SourceError::OtherSandbox };
        assert!(matches!(decide(&view, &terms, &waiter), Decision::GiveUp(GiveUpReason::ImpossibleCheck(_))));
    }

    #[test]
    fn a_hook_ends_when_a_container_before_it_has_ended_but_not_when_that_is_for_good() {
        let mut s =
            snapshot(Phase::Starting, &[("db", State::Failed), ("api", State::Started), ("web", State::Failed)]);
        let over = Decision::GiveUp(GiveUpReason::PredecessorEnded("db".to_owned(), State::Failed));
        assert_eq!(decide_at_start(HOOK, &board(s.clone())), over);
        s.stuck.insert("db".to_owned(), REASON_ENDED.to_owned());
        assert!(is_closed(&decide_at_start(HOOK, &board(s.clone()))));
        s.states.insert("api".to_owned(), State::Ready);
        assert_eq!(decide_at_start(HOOK, &board(s)), Decision::Open(OpenReason::ConditionsMet));
    }

    #[test]
    fn fails_fast_only_when_asked() {
        for (state, stuck, ending) in [
            (State::Failed, REASON_ENDED, GiveUpReason::ContainerEnded(until("db"), State::Failed)),
            (
                State::Waiting,
                "ImagePullBackOff",
                GiveUpReason::ContainerStuck(until("db"), "ImagePullBackOff".to_owned()),
            ),
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
    fn an_unknown_container_is_a_wrong_set_up_after_a_moment_and_on_the_board_alone() {
        let s = snapshot(Phase::Starting, &[("db", State::Ready)]);
        let late = Observations { waited: SETTLE_TIME, ..Observations::default() };
        assert!(is_closed(&decided(HOOK, "nobody", &board(s.clone()), &Observations::default())));
        let over = Decision::GiveUp(GiveUpReason::NoSuchContainer("nobody".to_owned(), vec!["db".to_owned()]));
        assert_eq!(decided(HOOK, "nobody", &board(s.clone()), &late), over);
        assert!(is_closed(&decided(HOOK, "nobody", &PodView::Snapshot(s, Source::Volume), &late)));
    }

    #[test]
    fn without_any_word_the_reason_says_what_each_source_gave() {
        let view = PodView::NoSnapshot {
            board: SourceError::OtherSandbox,
            volume: SourceError::Unreadable(Unreadable::Missing),
        };
        let Decision::Closed(why) = decide_at_start(HOOK, &view) else { panic!("open") };
        assert_eq!(why[1].to_string(), "the board speaks of another sandbox, the downward-API volume is not there");
        let terms = GateSpec { kind: HOOK, conditions: &[], fail_fast: false };
        assert_eq!(decide(&view, &terms, &Observations::default()), Decision::Open(OpenReason::ConditionsMet));
    }

    #[test]
    fn the_fallback_check_stands_in_for_a_dead_controller() {
        let view = board(snapshot(Phase::Starting, &[("api", State::Started)]));
        let dead = |fallback| {
            decided(
                HOOK,
                "api",
                &view,
                &Observations { controller: Controller::Dead(fallback), ..Observations::default() },
            )
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
}

//! A gate's decision: a function of the published pod state, the gate's own checks and the time waited. The result
//! includes the reason, so that the agent can show what the gate waits for.

use crate::core::exit::Exit;
use crate::core::snapshot::Snapshot;
use crate::core::sources::{PodView, Source, SourceError};
use crate::core::state::{Phase, State};
use crate::core::until::{ConditionStatus, WaitCondition};
use std::fmt;
use std::time::Duration;

/// Time after which a container that is missing on the board is an error and a missing sidecar counts as dead.
pub const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Conditions and rules of a gate.
#[derive(Debug, Clone)]
pub struct GateSpec<'a> {
    /// Kind of this gate.
    pub kind: GateKind<'a>,
    /// Conditions on containers. The gate opens only if all of them hold.
    pub conditions: &'a [WaitCondition],
    /// True if the gate gives up as soon as a condition can't be met without intervention.
    pub fail_fast: bool,
}

/// Kind of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind<'a> {
    /// The postStart hook of this container. While a hook waits, the kubelet does nothing else for the pod.
    Hook(&'a str),
    /// A gate in front of a container's command, with this ticket.
    Entrypoint(&'a str),
}

/// The gate's own observations, in addition to the published pod state.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// Checks that have not passed, each with its last result.
    pub pending_checks: Vec<String>,
    /// A check that can't pass any more, with the reason.
    pub impossible_check: Option<String>,
    /// Liveness of the sidecar.
    pub controller: Controller,
    /// Time waited so far.
    pub waited: Duration,
}

/// Liveness of the sidecar, as observed by the gate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Controller {
    /// Alive, or not known to be dead.
    #[default]
    Alive,
    /// Dead, with the last result of the fallback check if one is set. The kubelet does not restart the sidecar while a
    /// hook runs, so the hook relies on the fallback check.
    Dead(Option<Result<(), String>>),
}

/// Reason why a gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// All conditions hold.
    ConditionsMet,
    /// The pod has started before. A hook that waits during the restart of one container would block the other
    /// containers.
    AlreadyStarted,
    /// The pod is being deleted.
    PodTerminating,
    /// The sidecar is dead, and the fallback check has passed.
    FallbackPassed,
}

/// Reason why a gate is closed. `Display` completes the sentence "waiting for …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The container's state does not meet the condition.
    #[error("{0} (now {1})")]
    WrongState(WaitCondition, State),
    /// The container's state does not meet the condition, and the container is stuck for this reason.
    #[error("{0} (now {1}, {2})")]
    Stuck(WaitCondition, State, String),
    /// The source has no state for the condition's container.
    #[error("{0} (no state published yet)")]
    UnknownContainer(WaitCondition),
    /// No source is available to evaluate the condition.
    #[error("{0}")]
    NoSnapshot(WaitCondition),
    /// Errors of the board and of the downward-API volume.
    #[error("the board {0}, the downward-API volume {1}")]
    SourceErrors(SourceError, SourceError),
    /// The conditions hold on a board that may be outdated: the sidecar has not read this gate's report yet.
    #[error("the sidecar to check the conditions again")]
    TicketNotHeard,
    /// The only source is the downward-API volume, which the kubelet does not update while a hook runs.
    #[error("no board, and the kubelet does not update the downward-API volume while a hook runs")]
    FrozenVolume,
    /// The sidecar is dead, and the fallback check has failed with this result.
    #[error("the sidecar is dead; fallback check {0}")]
    FallbackFailed(String),
    /// The sidecar is dead, and the hook has no fallback check.
    #[error("the sidecar is dead and can't restart while this hook runs; add --fallback-check")]
    NoFallbackCheck,
    /// The sidecar is dead.
    #[error("the sidecar is dead")]
    ControllerDead,
    /// A check has not passed.
    #[error("{0}")]
    CheckPending(String),
    /// The report for the sidecar can't be written.
    #[error("can't report to the sidecar ({0}); mount this container's own folder there")]
    ReportFailed(String),
}

/// Reason why a gate gives up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GiveUpReason {
    /// A container earlier in the list has ended. The kubelet restarts that container only after this hook returns.
    #[error("{0} is {1}, and the kubelet restarts it only after this hook returns")]
    PredecessorEnded(String, State),
    /// The condition's container has ended and will not be restarted.
    #[error("{0} can't be met: the container is {1} and will not be restarted")]
    ContainerEnded(WaitCondition, State),
    /// The condition's container is stuck for this reason.
    #[error("{0} can't be met: the container is stuck in {1}")]
    ContainerStuck(WaitCondition, String),
    /// A check can't pass any more.
    #[error("{0}")]
    ImpossibleCheck(String),
    /// A condition refers to a container that the pod does not have. The list contains the pod's containers.
    #[error("no such container: {0}; the pod has {list}", list = .1.join(", "))]
    NoSuchContainer(String, Vec<String>),
    /// The pod is being deleted, so the gated command is not run.
    #[error("the pod is being deleted")]
    PodDeleted,
}

impl GiveUpReason {
    /// Returns the exit code for this reason.
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

/// Decision of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Open the gate.
    Open(OpenReason),
    /// Keep waiting.
    Closed(Vec<Obstacle>),
    /// Give up.
    GiveUp(GiveUpReason),
}

/// Decides whether a gate opens, waits or gives up.
pub fn decide(view: &PodView, spec: &GateSpec<'_>, observed: &Observations) -> Decision {
    let mut obstacles = Vec::new();
    match view {
        PodView::Snapshot(snapshot, source) => {
            match (snapshot.phase, spec.kind) {
                (Phase::Terminating, GateKind::Hook(_)) => return Decision::Open(OpenReason::PodTerminating),
                (Phase::Terminating, GateKind::Entrypoint(_)) => return Decision::GiveUp(GiveUpReason::PodDeleted),
                (Phase::Started, GateKind::Hook(_)) => return Decision::Open(OpenReason::AlreadyStarted),
                (Phase::Starting | Phase::Started, _) => {}
            }
            let knows_all = *source == Source::Board && observed.waited >= SETTLE_TIME && !snapshot.states.is_empty();
            for until in spec.conditions {
                let state = snapshot.states.get(&until.container).copied();
                let stuck = snapshot.stuck.get(&until.container).cloned();
                obstacles.push(match (until.status(snapshot), state, stuck) {
                    (ConditionStatus::Met, ..) => continue,
                    (ConditionStatus::Never, Some(state), _) if spec.fail_fast => {
                        return Decision::GiveUp(GiveUpReason::ContainerEnded(until.clone(), state));
                    }
                    (ConditionStatus::NotYet, _, Some(stuck)) if spec.fail_fast => {
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
            match (spec.kind, source) {
                (GateKind::Entrypoint(ticket), Source::Board)
                    if obstacles.is_empty() && !spec.conditions.is_empty() && !snapshot.has_heard_ticket(ticket) =>
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
            obstacles.extend(spec.conditions.iter().cloned().map(Obstacle::NoSnapshot));
            if !spec.conditions.is_empty() {
                obstacles.push(Obstacle::SourceErrors(board.clone(), volume.clone()));
            }
        }
    }
    if let Some(what) = &observed.impossible_check {
        return Decision::GiveUp(GiveUpReason::ImpossibleCheck(what.clone()));
    }
    match (&observed.controller, spec.kind) {
        (Controller::Dead(Some(Ok(()))), _) if observed.pending_checks.is_empty() => {
            return Decision::Open(OpenReason::FallbackPassed);
        }
        // A dead sidecar does not affect the pending checks.
        _ if obstacles.is_empty() => {}
        (Controller::Dead(Some(Err(why))), _) => obstacles.push(Obstacle::FallbackFailed(why.clone())),
        (Controller::Dead(None), GateKind::Hook(_)) => obstacles.push(Obstacle::NoFallbackCheck),
        (Controller::Dead(None), GateKind::Entrypoint(_)) => obstacles.push(Obstacle::ControllerDead),
        (Controller::Dead(Some(Ok(()))) | Controller::Alive, _) => {}
    }
    obstacles.extend(observed.pending_checks.iter().cloned().map(Obstacle::CheckPending));
    if obstacles.is_empty() { Decision::Open(OpenReason::ConditionsMet) } else { Decision::Closed(obstacles) }
}

/// Returns the first container that precedes `own`, has ended and would be restarted by the kubelet.
fn ended_predecessor(snapshot: &Snapshot, own: &str) -> Option<(String, State)> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    let restarts = before.filter(|name| !snapshot.has_ended_for_good(name));
    restarts.filter_map(|name| Some((name.clone(), *snapshot.states.get(name)?))).find(|(_, state)| state.has_ended())
}

impl fmt::Display for OpenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenReason::ConditionsMet => "all conditions hold",
            OpenReason::AlreadyStarted => "the pod has started before, and a restart does not wait",
            OpenReason::PodTerminating => "the pod is being deleted",
            OpenReason::FallbackPassed => "the sidecar is dead, and the fallback check has passed",
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
    fn gate_fails_fast_only_if_requested() {
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
        let view = PodView::NoSnapshot {
            board: SourceError::OtherSandbox,
            volume: SourceError::Unreadable(Unreadable::Missing),
        };
        let Decision::Closed(why) = decide_at_start(HOOK, &view) else { panic!("open") };
        assert_eq!(why[1].to_string(), "the board belongs to another sandbox, the downward-API volume is missing");
        let spec = GateSpec { kind: HOOK, conditions: &[], fail_fast: false };
        assert_eq!(decide(&view, &spec, &Observations::default()), Decision::Open(OpenReason::ConditionsMet));
    }

    #[test]
    fn fallback_check_replaces_a_dead_sidecar() {
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

//! A gate's decision: a function of the published pod state, the gate's own checks and the time waited. The result
//! includes the reason, so that the agent can show what the gate waits for.

use crate::core::exit::Exit;
use crate::core::snapshot::Snapshot;
use crate::core::sources::{PodView, Source, SourceError};
use crate::core::state::{Phase, State};
use crate::core::until::{ConditionStatus, WaitCondition};
use crate::core::words::words;
use std::time::Duration;

/// Time that a gate allows for startup. Later, a container that is missing on the board is an error, and a missing sidecar
/// counts as dead.
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
    /// True if the gate opens at its time limit in any case. It then gives up no condition before: another container
    /// could otherwise open it early, for example by its own end.
    pub opens_at_limit: bool,
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

words! {
    /// Reason why a gate is open.
    OpenReason {
        /// All conditions hold.
        ConditionsMet = "all conditions hold",
        /// The pod has started before. A hook that waits during the restart of one container would block the other
        /// containers.
        AlreadyStarted = "the pod has started before, and a restart does not wait",
        /// The pod is being deleted.
        PodTerminating = "the pod is being deleted",
        /// The sidecar is dead, and the fallback check has passed.
        FallbackPassed = "the sidecar is dead, and the fallback check has passed",
    }
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
    #[error("can't report to the sidecar ({0})")]
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
    let may_give_up = !spec.opens_at_limit;
    let fail_fast = spec.fail_fast && may_give_up;
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
                    (ConditionStatus::Never, Some(state), _) if fail_fast => {
                        return Decision::GiveUp(GiveUpReason::ContainerEnded(until.clone(), state));
                    }
                    (ConditionStatus::NotYet, _, Some(stuck)) if fail_fast => {
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
                    if let Some((name, state)) = ended_predecessor(snapshot, own).filter(|_| may_give_up) {
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
    if let Some(what) = observed.impossible_check.as_ref().filter(|_| may_give_up) {
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

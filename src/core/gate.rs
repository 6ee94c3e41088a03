//! Decides when a gate opens, from the published Pod state and the gate's own observations. The result includes the
//! reason, so that users see what the gate waits for.
//!
//! | rule | hook (`post-start`) | gate (`entrypoint`) | gate at the kubelet (`hold`) |
//! |---|---|---|---|
//! | decided by | the agent, [`decide`] | the agent, [`decide`] | the sidecar, `HoldGate::wanted` |
//! | all conditions are met | opens | opens | opens |
//! | the conditions are confirmed at the decision | no | the board has the gate's ticket | by the sidecar |
//! | a check is pending | closed | closed | no checks |
//! | a check cannot pass any more | gives up | gives up | no checks |
//! | a condition cannot be met, with fail-fast | gives up | gives up | no fail-fast |
//! | a container is unknown | closed; gives up after 2 s ([`SETTLE_TIME`]) | as the hook | closed |
//! | an earlier container in the list has ended | gives up | closed | closed |
//! | the Pod has started | opens | no effect | no effect |
//! | the Pod is being deleted | opens | gives up | no effect: the kubelet creates no container |
//! | the sidecar is not running | fallback check, or closed | closed | the gate stays as it is |
//! | time limit, on-timeout `fail` | the hook fails | the gate fails | `TimedOut`; opens when the conditions are met |
//! | time limit, on-timeout `continue` | opens | opens | opens; closes after the container has run |
//! | start of the time limit | start of the hook | start of the gate | end of the last run; pauses while open |
//! | closes again | never | never: a new start has a new gate | when a condition is no longer met |
//!
//! With on-timeout `continue`, a gate keeps waiting if another container has failed or a check cannot pass any more.
//! Such a gate opens at its time limit at the latest. The agent's wait loop and the sidecar's model measure the time
//! limits.

use crate::core::exit::Exit;
use crate::core::snapshot::Snapshot;
use crate::core::sources::{PodView, Source, SourceError};
use crate::core::state::{Stage, State};
use crate::core::text::command_line;
use crate::core::until::{ConditionStatus, WaitCondition, WantedState};
use crate::core::words::words;
use std::time::Duration;

/// Time limit for the sidecar to start and to publish all containers. After this time, a container that is missing
/// on the board is an error, and a missing sidecar counts as dead.
pub const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Conditions and rules of a gate.
#[derive(Debug, Clone)]
pub struct GateSpec<'a> {
    /// Kind of this gate.
    pub kind: GateKind<'a>,
    /// Conditions on containers. The gate opens only if all conditions are met.
    pub conditions: &'a [WaitCondition],
    /// True if the gate gives up as soon as a condition cannot be met without intervention.
    pub fail_fast: bool,
    /// Action at the time limit.
    pub on_timeout: OnTimeout,
}

words! {
    /// Action of a gate at its time limit.
    OnTimeout {
        /// The gate fails. In hold mode, the container stays held.
        Fail = "fail",
        /// The gate opens without its conditions.
        Continue = "continue",
    }
}

/// Kind of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind<'a> {
    /// The postStart hook of this container. While a hook waits, the kubelet does nothing else for the pod.
    PostStart(&'a str),
    /// A gate in front of a container's command, with this ticket.
    Entrypoint(&'a str),
}

/// The gate's own observations, in addition to the published pod state.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// Checks that have not passed, each with its last result.
    pub pending_checks: Vec<String>,
    /// A check that cannot pass any more, with the reason.
    pub impossible_check: Option<String>,
    /// Health of the sidecar.
    pub sidecar: SidecarHealth,
    /// Time waited so far.
    pub waited: Duration,
}

/// Health of the sidecar, as observed by the gate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SidecarHealth {
    /// Alive, or not known to be dead.
    #[default]
    Alive,
    /// Dead, with the last result of the fallback check if the hook has one. The kubelet does not restart the sidecar
    /// while a hook runs, so the hook relies on the fallback check.
    Dead(Option<Result<(), String>>),
}

words! {
    /// Reason why a gate is open.
    OpenReason {
        /// All conditions are met.
        ConditionsMet = "all conditions are met",
        /// The pod has started before. A hook that waits during the restart of one container would block the other
        /// containers.
        AlreadyStarted = "the pod has started before, and a restart does not wait",
        /// The pod is being deleted.
        PodTerminating = "the pod is being deleted",
        /// The sidecar is dead, and the fallback check has passed.
        FallbackPassed = "the sidecar is not running, and the fallback check has passed",
    }
}

/// Reason why a gate is closed. `Display` writes one item of the list after "waiting for".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The container's state does not meet the condition.
    #[error("{0} (now {1})")]
    WrongState(WaitCondition, State),
    /// The container's state does not meet the condition, and the container is stuck for this reason.
    #[error("{0} (now {1}, {2})")]
    Stuck(WaitCondition, State, String),
    /// Only the kubelet's status proves the condition, and the sidecar cannot read that status.
    #[error(
        "{0} (podgate cannot see this: only the kubelet's status shows it, and the sidecar may not read this Pod; set \
         podgate.io/publish: api and bind podgate's role with kubectl podgate install --namespaces NAMESPACE, or see the \
         advice of kubectl podgate check)"
    )]
    Unseen(WaitCondition),
    /// The source has no state for the condition's container.
    #[error("{0} (no state published yet)")]
    UnknownContainer(WaitCondition),
    /// No source is available to evaluate the condition.
    #[error("{0}")]
    NoSnapshot(WaitCondition),
    /// Error of the board.
    #[error("the board {0}")]
    BoardError(SourceError),
    /// Error of the downward-API volume, in a hook.
    #[error("the downward-API volume {0}")]
    VolumeError(SourceError),
    /// The conditions are met. Before the gate opens, each container must be observed once more.
    #[error("the confirmation of the conditions")]
    Unconfirmed,
    /// The only source is the downward-API volume, which the kubelet does not update while a hook runs.
    #[error("no board, and the kubelet does not update the downward-API volume while a hook runs")]
    FrozenVolume,
    /// The sidecar is dead, and the fallback check has failed with this result.
    #[error("the sidecar is not running; fallback check {0}")]
    FallbackFailed(String),
    /// The sidecar is dead, and the hook has no fallback check.
    #[error("the sidecar is not running and cannot restart while this hook runs; add --fallback-check")]
    NoFallbackCheck,
    /// The sidecar is dead.
    #[error("the sidecar is not running; see its log")]
    SidecarDead,
    /// A check has not passed.
    #[error("{0}")]
    CheckPending(String),
    /// The report for the sidecar cannot be written.
    #[error("cannot report to the sidecar ({0})")]
    ReportFailed(String),
}

/// Reason why a gate gives up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GiveUpReason {
    /// A container earlier in the list has ended. The kubelet restarts that container only after this hook returns.
    #[error("{0} is {1}; the kubelet restarts {0} only after this hook returns; see {logs}", logs = log_command(.0))]
    PredecessorEnded(String, State),
    /// The condition's container has ended and will not be restarted.
    #[error("{0} cannot be met: the container is {1} and will not be restarted; see {logs}", logs = log_command(&.0.container))]
    ContainerEnded(WaitCondition, State),
    /// The condition's container is stuck for this reason.
    #[error("{0} cannot be met: the container is stuck in {1}; see kubectl describe pod POD")]
    ContainerStuck(WaitCondition, String),
    /// A check cannot pass any more.
    #[error("{0}")]
    ImpossibleCheck(String),
    /// A condition refers to a container that the pod does not have. The list contains the pod's containers.
    #[error("no such container: {0}; the pod has {list}", list = .1.join(", "))]
    NoSuchContainer(String, Vec<String>),
    /// The pod is being deleted, so the gate does not run the command.
    #[error("the pod is being deleted")]
    PodDeleted,
}

fn log_command(container: &str) -> String {
    command_line(&["kubectl", "logs", "POD", "-c", container])
}

/// Returns the reason of a gate that has timed out: what it still waits for, and what helps.
pub fn timeout_reason(limit: &str, obstacles: &[Obstacle]) -> String {
    let running = obstacles.iter().find_map(|obstacle| match obstacle {
        Obstacle::WrongState(until, State::Started) if until.want == WantedState::Ready => Some(&until.container),
        _ => None,
    });
    let probes = running.map(|name| format!(": {name} runs, but has not passed its probes")).unwrap_or_default();
    format!("timed out after {limit}, still waiting for {}{probes}", join_obstacles(obstacles))
}

/// Returns all obstacles as one text.
pub fn join_obstacles(obstacles: &[Obstacle]) -> String {
    obstacles.iter().map(Obstacle::to_string).collect::<Vec<_>>().join("; ")
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

/// Decides if a hook or a gate in front of a command opens, waits or gives up.
pub fn decide(view: &PodView, spec: &GateSpec<'_>, observed: &Observations) -> Decision {
    let may_give_up = spec.on_timeout == OnTimeout::Fail;
    let mut obstacles;
    match view {
        PodView::Snapshot(snapshot, source) => {
            match (snapshot.stage, spec.kind) {
                (Stage::Terminating, GateKind::PostStart(_)) => return Decision::Open(OpenReason::PodTerminating),
                (Stage::Terminating, GateKind::Entrypoint(_)) => return Decision::GiveUp(GiveUpReason::PodDeleted),
                (Stage::Started, GateKind::PostStart(_)) => return Decision::Open(OpenReason::AlreadyStarted),
                (Stage::Starting | Stage::Started, _) => {}
            }
            let knows_all = *source == Source::Board && observed.waited >= SETTLE_TIME && !snapshot.states.is_empty();
            match check_conditions(snapshot, spec.conditions, spec.fail_fast && may_give_up, knows_all) {
                Ok(unmet) => obstacles = unmet,
                Err(reason) => return Decision::GiveUp(reason),
            }
            match spec.kind {
                GateKind::Entrypoint(ticket)
                    if obstacles.is_empty()
                        && !spec.conditions.is_empty()
                        && !snapshot.has_confirmed_ticket(ticket) =>
                {
                    obstacles.push(Obstacle::Unconfirmed);
                }
                GateKind::PostStart(own) if !obstacles.is_empty() => {
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
            obstacles = spec.conditions.iter().cloned().map(Obstacle::NoSnapshot).collect::<Vec<_>>();
            if !spec.conditions.is_empty() {
                obstacles.push(Obstacle::BoardError(board.clone()));
                obstacles.extend(volume.clone().map(Obstacle::VolumeError));
            }
        }
    }
    if let Some(what) = observed.impossible_check.as_ref().filter(|_| may_give_up) {
        return Decision::GiveUp(GiveUpReason::ImpossibleCheck(what.clone()));
    }
    match (&observed.sidecar, spec.kind) {
        (SidecarHealth::Dead(Some(Ok(()))), _) if observed.pending_checks.is_empty() => {
            return Decision::Open(OpenReason::FallbackPassed);
        }
        // Only checks are pending. A dead sidecar does not affect them.
        _ if obstacles.is_empty() => {}
        (SidecarHealth::Dead(Some(Err(why))), _) => obstacles.push(Obstacle::FallbackFailed(why.clone())),
        (SidecarHealth::Dead(None), GateKind::PostStart(_)) => obstacles.push(Obstacle::NoFallbackCheck),
        (SidecarHealth::Dead(None), GateKind::Entrypoint(_)) => obstacles.push(Obstacle::SidecarDead),
        (SidecarHealth::Dead(Some(Ok(()))) | SidecarHealth::Alive, _) => {}
    }
    obstacles.extend(observed.pending_checks.iter().cloned().map(Obstacle::CheckPending));
    if obstacles.is_empty() { Decision::Open(OpenReason::ConditionsMet) } else { Decision::Closed(obstacles) }
}

/// Returns an obstacle for each condition that is not met. `knows_all` means that the snapshot has all containers.
/// Fails with the reason if a container does not exist or, with `fail_fast`, if a condition cannot be met without
/// intervention.
fn check_conditions(
    snapshot: &Snapshot,
    conditions: &[WaitCondition],
    fail_fast: bool,
    knows_all: bool,
) -> Result<Vec<Obstacle>, GiveUpReason> {
    let mut obstacles = Vec::new();
    for until in conditions {
        let state = snapshot.states.get(&until.container).copied();
        let stuck = snapshot.stuck.get(&until.container).cloned();
        obstacles.push(match (until.status(snapshot), state, stuck) {
            (ConditionStatus::Met, ..) => continue,
            (ConditionStatus::Never, Some(state), _) if fail_fast => {
                return Err(GiveUpReason::ContainerEnded(until.clone(), state));
            }
            (ConditionStatus::NotYet, _, Some(stuck)) if fail_fast => {
                return Err(GiveUpReason::ContainerStuck(until.clone(), stuck));
            }
            (_, None, _) if knows_all => {
                let known = snapshot.states.keys().cloned().collect();
                return Err(GiveUpReason::NoSuchContainer(until.container.clone(), known));
            }
            (_, None, _) => Obstacle::UnknownContainer(until.clone()),
            (_, Some(_), None) if snapshot.unseen.contains(&until.to_string()) => Obstacle::Unseen(until.clone()),
            (_, Some(state), Some(stuck)) => Obstacle::Stuck(until.clone(), state, stuck),
            (_, Some(state), None) => Obstacle::WrongState(until.clone(), state),
        });
    }
    Ok(obstacles)
}

/// Returns the first container that precedes `own`, has ended and would be restarted by the kubelet.
fn ended_predecessor(snapshot: &Snapshot, own: &str) -> Option<(String, State)> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    let restarts = before.filter(|name| !snapshot.has_ended_for_good(name));
    restarts.filter_map(|name| Some((name.clone(), *snapshot.states.get(name)?))).find(|(_, state)| state.has_ended())
}

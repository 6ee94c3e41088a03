//! Decides when a gate opens, from the published Pod state and the gate's own observations. The result includes the
//! reason, so that users see what the gate waits for.
//!
//! | rule | hook (`post-start`) | gate (`entrypoint`) | gate at the kubelet (`hold`) |
//! |---|---|---|---|
//! | decided by | the agent, [`decide`] | the agent, [`decide`] | the sidecar, `HoldGate::wanted_state` |
//! | all conditions are met | opens | opens | opens |
//! | the conditions are confirmed at the decision | no | the board has the gate's ticket | by the sidecar |
//! | a check is pending | closed | closed | no checks |
//! | a check cannot pass any more | gives up | gives up | no checks |
//! | a condition cannot be met, with fail-fast | gives up | gives up | no fail-fast |
//! | a container is unknown | closed; gives up after 2 s ([`SIDECAR_START_TIMEOUT`]) | as the hook | closed |
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
use crate::core::sources::{PodView, Source};
use crate::core::state::{Stage, State};
use crate::core::text::command_line;
use crate::core::until::{ConditionStatus, WaitCondition, WantedState};
use crate::core::words::words;
use std::time::Duration;

/// Time limit for the sidecar to start and to publish all containers. After this time, a container that is missing
/// on the board is an error, and a missing sidecar counts as dead.
pub const SIDECAR_START_TIMEOUT: Duration = Duration::from_secs(2);

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

/// What an agent decides about: a hook, or a gate in front of a command. The sidecar decides about `hold` gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind<'a> {
    /// The postStart hook of this container. While it waits, the kubelet starts no container of the pod.
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

/// Health of the sidecar, as observed by the gate. The kubelet does not restart the sidecar while a hook runs, so a
/// hook relies on its fallback check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SidecarHealth {
    /// Alive, or not known to be dead.
    #[default]
    Alive,
    /// Dead, and the gate has no fallback check.
    Dead,
    /// Dead, but the fallback check has passed.
    FallbackPassed,
    /// Dead, and the fallback check has failed with this result.
    FallbackFailed(String),
}

/// Reason of a gate in a Pod that is being deleted.
const POD_DELETED: &str = "the pod is being deleted";

fn log_command(container: &str) -> String {
    command_line(&["kubectl", "logs", "POD", "-c", container])
}

/// Returns the reason of a gate that has timed out: what it still waits for, and what helps.
pub fn timeout_reason(limit: &str, obstacles: &[String], view: &PodView, conditions: &[WaitCondition]) -> String {
    let lacks_only_probes = |snapshot: &Snapshot, until: &WaitCondition| {
        until.want == WantedState::Ready
            && snapshot.states.get(&until.container) == Some(&State::Started)
            && !snapshot.stuck.contains_key(&until.container)
            && !snapshot.unseen.contains(&until.to_string())
    };
    let running = view.chosen_snapshot().and_then(|found| conditions.iter().find(|one| lacks_only_probes(found, one)));
    let probes = running.map(|one| format!(": {} runs, but has not passed its probes", one.container));
    let probes = probes.unwrap_or_default();
    format!("timed out after {limit}, still waiting for {}{probes}", obstacles.join("; "))
}

/// Decision of a gate, with its reasons as users read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Open the gate, for this reason.
    Open(&'static str),
    /// Keep waiting for these items.
    Closed(Vec<String>),
    /// Give up with this exit code, for this reason.
    GiveUp(Exit, String),
}

/// Decides if a hook or a gate in front of a command opens, waits or gives up.
pub fn decide(view: &PodView, spec: &GateSpec<'_>, observed: &Observations) -> Decision {
    let may_give_up = spec.on_timeout == OnTimeout::Fail;
    let mut obstacles: Vec<String>;
    match view {
        PodView::Snapshot(snapshot, source) => {
            match (snapshot.stage, spec.kind) {
                (Stage::Terminating, GateKind::PostStart(_)) => return Decision::Open(POD_DELETED),
                (Stage::Terminating, GateKind::Entrypoint(_)) => {
                    return Decision::GiveUp(Exit::Terminated, POD_DELETED.to_owned());
                }
                // A hook that waits during the restart of one container would block the other containers.
                (Stage::Started, GateKind::PostStart(_)) => {
                    return Decision::Open("the pod has started before, and a restart does not wait");
                }
                (Stage::Starting | Stage::Started, _) => {}
            }
            let knows_all =
                *source == Source::Board && observed.waited >= SIDECAR_START_TIMEOUT && !snapshot.states.is_empty();
            match check_conditions(snapshot, spec.conditions, spec.fail_fast && may_give_up, knows_all) {
                Ok(unmet) => obstacles = unmet,
                Err(ending) => return ending,
            }
            match spec.kind {
                // Before the gate opens, each container must be observed once more.
                GateKind::Entrypoint(ticket)
                    if obstacles.is_empty()
                        && !spec.conditions.is_empty()
                        && !snapshot.confirmed_tickets.values().any(|confirmed| confirmed == ticket) =>
                {
                    obstacles.push("the confirmation of the conditions".to_owned());
                }
                GateKind::PostStart(own) if !obstacles.is_empty() => {
                    if let Some((name, state)) = ended_predecessor(snapshot, own).filter(|_| may_give_up) {
                        let logs = log_command(name);
                        let why = format!(
                            "{name} is {state}; the kubelet restarts {name} only after this hook returns; see {logs}"
                        );
                        return Decision::GiveUp(Exit::NeverMet, why);
                    }
                    if *source == Source::Volume {
                        let why = "no board, and the kubelet does not update the downward-API volume while a hook runs";
                        obstacles.push(why.to_owned());
                    }
                }
                _ => {}
            }
        }
        PodView::NoSnapshot { board, volume } => {
            obstacles = spec.conditions.iter().map(WaitCondition::to_string).collect();
            if !spec.conditions.is_empty() {
                obstacles.push(format!("the board {board}"));
                obstacles.extend(volume.iter().map(|error| format!("the downward-API volume {error}")));
            }
        }
    }
    if let Some(why) = observed.impossible_check.as_ref().filter(|_| may_give_up) {
        return Decision::GiveUp(Exit::NeverMet, why.clone());
    }
    match (&observed.sidecar, spec.kind) {
        (SidecarHealth::FallbackPassed, _) if observed.pending_checks.is_empty() => {
            return Decision::Open("the sidecar is not running, and the fallback check has passed");
        }
        // Only checks are pending. A dead sidecar does not affect them.
        _ if obstacles.is_empty() => {}
        (SidecarHealth::FallbackFailed(why), _) => {
            obstacles.push(format!("the sidecar is not running; fallback check {why}"));
        }
        (SidecarHealth::Dead, GateKind::PostStart(_)) => {
            let why = "the sidecar is not running and cannot restart while this hook runs; add --fallback-check";
            obstacles.push(why.to_owned());
        }
        (SidecarHealth::Dead, GateKind::Entrypoint(_)) => {
            obstacles.push("the sidecar is not running; see its log".to_owned());
        }
        (SidecarHealth::FallbackPassed | SidecarHealth::Alive, _) => {}
    }
    obstacles.extend(observed.pending_checks.iter().cloned());
    if obstacles.is_empty() { Decision::Open("all conditions are met") } else { Decision::Closed(obstacles) }
}

/// Returns an obstacle for each condition that is not met. `knows_all` means that the snapshot has all containers.
/// Fails with a decision to give up if a container does not exist or, with `fail_fast`, if a condition cannot be met
/// without intervention.
fn check_conditions(
    snapshot: &Snapshot,
    conditions: &[WaitCondition],
    fail_fast: bool,
    knows_all: bool,
) -> Result<Vec<String>, Decision> {
    let mut obstacles = Vec::new();
    for until in conditions {
        let name = &until.container;
        obstacles.push(match (until.status(snapshot), snapshot.states.get(name), snapshot.stuck.get(name)) {
            (ConditionStatus::Met, ..) => continue,
            (ConditionStatus::Never, Some(state), _) if fail_fast => {
                let ended = format!("the container is {state} and will not be restarted; see {}", log_command(name));
                return Err(Decision::GiveUp(Exit::NeverMet, format!("{until} cannot be met: {ended}")));
            }
            (ConditionStatus::NotYet, _, Some(stuck)) if fail_fast => {
                let stuck = format!("the container is stuck in {stuck}; see kubectl describe pod POD");
                return Err(Decision::GiveUp(Exit::NeverMet, format!("{until} cannot be met: {stuck}")));
            }
            (_, None, _) if knows_all => {
                let known = snapshot.states.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(Decision::GiveUp(Exit::BadSetup, format!("no such container: {name}; the pod has {known}")));
            }
            (_, None, _) => format!("{until} (no state published yet)"),
            (_, Some(_), None) if snapshot.unseen.contains(&until.to_string()) => format!(
                "{until} (podgate cannot see this: only the kubelet's status shows it, and the sidecar may not read this \
                 Pod; set podgate.io/publish: api and bind podgate's role with kubectl podgate install --namespaces \
                 NAMESPACE, or see the advice of kubectl podgate check)"
            ),
            (_, Some(state), Some(stuck)) => format!("{until} (now {state}, {stuck})"),
            (_, Some(state), None) => format!("{until} (now {state})"),
        });
    }
    Ok(obstacles)
}

/// Returns the first container that precedes `own`, has ended and would be restarted by the kubelet.
fn ended_predecessor<'a>(snapshot: &'a Snapshot, own: &str) -> Option<(&'a str, State)> {
    let before = snapshot.order.iter().take_while(|name| *name != own);
    let restarts = before.filter(|name| !snapshot.has_ended_for_good(name));
    restarts.filter_map(|name| Some((name.as_str(), *snapshot.states.get(name)?))).find(|(_, state)| state.has_ended())
}

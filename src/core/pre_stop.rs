//! A preStop hook's decision: keep the container running until other containers have exited, or let it end.
//!
//! The kubelet runs all preStop hooks at once when the pod is deleted. If the kubelet restarts a single container, it
//! runs only that container's hook, which must not wait. The kubelet does not tell the hook which case applies
//! (<https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/>).

use crate::core::sources::PodView;
use crate::core::state::{Stage, State};
use crate::core::until::{WaitCondition, WantedState};
use std::time::Duration;

/// Time limit for detecting that the whole pod stops. On a busy node, for example when all pods of the node stop, the
/// runtime can start the hooks of one pod more than a second apart.
pub const POD_STOP_DETECTION_TIMEOUT: Duration = Duration::from_secs(3);

/// Decision of a preStop hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Let the container end, for this reason.
    Release(&'static str),
    /// Keep waiting: the whole pod stops, and these containers still run.
    Wait(Vec<String>),
    /// Keep waiting: it is not clear yet if the whole pod stops.
    Undecided,
}

/// Decides whether a preStop hook waits. `pod_stops` is true if the whole pod stops ([`is_pod_stopping`]). `waited` is
/// the time since the hook started.
pub fn decide(view: &PodView, conditions: &[WaitCondition], pod_stops: bool, waited: Duration) -> Decision {
    let mut remaining = Vec::new();
    for until in conditions {
        match view.chosen_snapshot().map(|snapshot| snapshot.states.get(&until.container)) {
            None => remaining.push(format!("{until} (no state from the sidecar)")),
            Some(Some(state)) if !is_gone(*state, until.want) => remaining.push(format!("{until} (now {state})")),
            // Don't wait for a container whose state the sidecar has not published.
            Some(_) => {}
        }
    }
    if remaining.is_empty() {
        return Decision::Release("nothing is left to wait for");
    }
    if pod_stops {
        return Decision::Wait(remaining);
    }
    if waited < POD_STOP_DETECTION_TIMEOUT {
        return Decision::Undecided;
    }
    Decision::Release("only this container stops, so the hook does not wait")
}

/// Returns true if the whole pod stops: the pod is being deleted, or a container in `conditions` has begun to stop.
pub fn is_pod_stopping(view: &PodView, conditions: &[WaitCondition]) -> bool {
    let Some(snapshot) = view.chosen_snapshot() else { return false };
    snapshot.stage == Stage::Terminating || conditions.iter().any(|until| snapshot.stopping.contains(&until.container))
}

/// Returns true if a container in `state` has exited as `want` requires, has never started, or waits in its gate.
fn is_gone(state: State, want: WantedState) -> bool {
    state.is_before_start() || state.has_ended() && (want != WantedState::Completed || state == State::Completed)
}

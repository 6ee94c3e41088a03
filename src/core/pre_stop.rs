//! A preStop hook's decision: whether to keep the container until others are gone.
//!
//! The kubelet runs preStop hooks when the pod is deleted, all of them at once, and also when a single container is restarted
//! (<https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/>); there, to wait would be wrong. A hook is not
//! told which of the two it is.

use crate::core::sources::PodView;
use crate::core::state::{Phase, State};
use crate::core::until::{WaitCondition, WantedState};
use std::time::Duration;

/// How long a hook waits for a sign that the whole pod stops.
pub const STOP_SIGN_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a preStop hook stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It lets its container end.
    Release(ReleaseReason),
    /// The whole pod stops, and these are not gone yet.
    Wait(Vec<String>),
    /// Nothing says yet that the whole pod stops.
    Undecided,
}

/// Why a container may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseReason {
    /// All who use it are gone.
    AllGone,
    /// Only this container stops.
    OnlyThisContainer,
}

impl std::fmt::Display for ReleaseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReleaseReason::AllGone => "all that it stays for are gone",
            ReleaseReason::OnlyThisContainer => "only this container stops, and that waits for nobody",
        })
    }
}

/// Decides. `pod_stops` says that an earlier look has found the whole pod stopping; `open_ports` are the ports that still accept
/// connections; `waited` is how long the hook has run.
pub fn decide(
    view: &PodView,
    untils: &[WaitCondition],
    open_ports: &[String],
    pod_stops: bool,
    waited: Duration,
) -> Decision {
    let mut staying = Vec::new();
    for until in untils {
        match view {
            PodView::Snapshot(snapshot, _) => match snapshot.states.get(&until.container) {
                Some(state) if !is_gone(*state, until.want) => staying.push(format!("{until} (now {state})")),
                // Of one that nobody knows there is nothing to wait for.
                _ => {}
            },
            PodView::NoSnapshot { .. } => staying.push(format!("{until} (no word from the sidecar)")),
        }
    }
    staying.extend(open_ports.iter().cloned());
    if staying.is_empty() {
        return Decision::Release(ReleaseReason::AllGone);
    }
    if pod_stops || is_pod_stopping(view, untils) {
        return Decision::Wait(staying);
    }
    if waited >= STOP_SIGN_TIMEOUT { Decision::Release(ReleaseReason::OnlyThisContainer) } else { Decision::Undecided }
}

/// Whether `view` says that the whole pod stops: it is being deleted, or a container waited for has begun to stop too.
pub fn is_pod_stopping(view: &PodView, untils: &[WaitCondition]) -> bool {
    let PodView::Snapshot(snapshot, _) = view else { return false };
    snapshot.phase == Phase::Terminating || untils.iter().any(|until| snapshot.stopping.contains(&until.container))
}

/// Who never started, or waits in its gate, uses nobody.
fn is_gone(state: State, want: WantedState) -> bool {
    state == State::Waiting || state.has_ended() && (want != WantedState::Completed || state == State::Completed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::snapshot::{Snapshot, Unreadable};
    use crate::core::sources::{Source, SourceError};

    fn view(phase: Phase, app: State, stopping: &[&str]) -> PodView {
        let snapshot = Snapshot {
            phase,
            stopping: stopping.iter().map(|name| (*name).to_owned()).collect(),
            ..Snapshot::new("0-0-0".parse().unwrap(), "e", &[("app", app), ("db", State::Ready)])
        };
        PodView::Snapshot(snapshot, Source::Board)
    }

    fn app() -> Vec<WaitCondition> {
        vec!["app=Exited".parse().unwrap()]
    }

    #[test]
    fn waits_while_the_pod_stops_and_the_user_lives() {
        for (phase, stopping) in [(Phase::Terminating, [].as_slice()), (Phase::Started, &["app"])] {
            let decision = decide(&view(phase, State::Ready, stopping), &app(), &[], false, STOP_SIGN_TIMEOUT * 5);
            assert_eq!(decision, Decision::Wait(vec!["app=Exited (now Ready)".to_owned()]));
        }
        let later = decide(&view(Phase::Started, State::Ready, &[]), &app(), &[], true, STOP_SIGN_TIMEOUT * 5);
        assert!(matches!(later, Decision::Wait(_)), "once found, it stays so");
    }

    #[test]
    fn a_restart_of_one_container_waits_for_a_sign_and_no_longer() {
        let running = view(Phase::Started, State::Ready, &["db"]);
        assert_eq!(decide(&running, &app(), &[], false, Duration::ZERO), Decision::Undecided);
        assert_eq!(
            decide(&running, &app(), &[], false, STOP_SIGN_TIMEOUT),
            Decision::Release(ReleaseReason::OnlyThisContainer)
        );
    }

    #[test]
    fn lets_go_when_the_user_is_gone_or_never_came() {
        for gone in [State::Completed, State::Failed, State::Waiting] {
            let decision = decide(&view(Phase::Terminating, gone, &[]), &app(), &[], false, Duration::ZERO);
            assert_eq!(decision, Decision::Release(ReleaseReason::AllGone), "{gone}");
        }
        let stranger = vec!["nobody=Exited".parse().unwrap()];
        let decision = decide(&view(Phase::Terminating, State::Ready, &[]), &stranger, &[], false, Duration::ZERO);
        assert_eq!(decision, Decision::Release(ReleaseReason::AllGone));
    }

    #[test]
    fn an_open_port_holds_it_too() {
        let open = ["tcp://127.0.0.1:1 (open)".to_owned()];
        let decision = decide(&view(Phase::Terminating, State::Failed, &[]), &app(), &open, false, Duration::ZERO);
        assert_eq!(decision, Decision::Wait(open.to_vec()));
    }

    #[test]
    fn without_a_board_it_does_not_hold_the_container_up() {
        let none = PodView::NoSnapshot {
            board: SourceError::Unreadable(Unreadable::Missing),
            volume: SourceError::Unreadable(Unreadable::Missing),
        };
        assert_eq!(decide(&none, &app(), &[], false, Duration::ZERO), Decision::Undecided);
        assert_eq!(
            decide(&none, &app(), &[], false, STOP_SIGN_TIMEOUT),
            Decision::Release(ReleaseReason::OnlyThisContainer)
        );
    }
}

//! Which evidence decides a container's state. A gate opens on evidence of our own; the kubelet's word is for what only the
//! kubelet knows. In this order:
//!
//! 1. ended is ended;
//! 2. behind a closed entrypoint gate a container is `Waiting`, whatever a probe or the kubelet says: a neighbour may have taken
//!    its port, and the kubelet calls a waiting gate running and ready;
//! 3. what we probed ourselves;
//! 4. what the container's own agent reports: `exec` probes can only run inside it;
//! 5. the kubelet's `ready`, for what 3 and 4 can't judge, and only when the caller has found that it can be trusted.

use crate::core::probe::ProbeVerdict;
use crate::core::state::State;

/// All that is known of one container at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// The exit code of the incarnation that counts, if that one has ended.
    pub exit_code: Option<i32>,
    /// It has an entrypoint gate, and no report says that the gate has opened.
    pub gate_closed: bool,
    /// Its process runs, by its own report, the kubelet's word or a listening socket.
    pub started: bool,
    /// What probing from outside says; `None` if it has no probe that can be run from outside.
    pub probe_verdict: Option<ProbeVerdict>,
    /// What its `exec` probes say; `None` if it has none.
    pub exec_probes: Option<ExecEvidence>,
    /// It was `Ready` before, in this incarnation.
    pub was_ready: bool,
}

/// What is known of probes that can only be run inside the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecEvidence {
    /// Its own agent has reported that they passed.
    pub reported_passed: bool,
    /// The kubelet says that it is ready; `None` when its word can't be trusted now.
    pub kubelet_ready: Option<bool>,
}

/// The state that this evidence makes.
pub fn resolve_state(evidence: &Evidence) -> State {
    let Evidence { exit_code, gate_closed, started, probe_verdict: probed, exec_probes: exec, was_ready } = *evidence;
    if let Some(code) = exit_code {
        return if code == 0 { State::Completed } else { State::Failed };
    }
    if gate_closed || !started {
        return State::Waiting;
    }
    // The kubelet's later "no" outweighs an earlier report: the hook that made the report has gone.
    let inside = exec.map(|e| e.kubelet_ready.unwrap_or(e.reported_passed) || (e.reported_passed && !was_ready));
    let not_ready = if was_ready { State::NotReady } else { State::Started };
    match (probed, inside) {
        (Some(ProbeVerdict::Failing), _) => State::NotReady,
        (Some(ProbeVerdict::NotYet), _) | (_, Some(false)) => not_ready,
        (Some(ProbeVerdict::Passed) | None, Some(true) | None) => State::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: Evidence = Evidence {
        exit_code: None,
        gate_closed: false,
        started: true,
        probe_verdict: None,
        exec_probes: None,
        was_ready: false,
    };

    #[test]
    fn ended_outweighs_all_else() {
        for (code, state) in [(0, State::Completed), (1, State::Failed), (137, State::Failed)] {
            let evidence = Evidence {
                exit_code: Some(code),
                gate_closed: true,
                probe_verdict: Some(ProbeVerdict::Passed),
                ..RUNNING
            };
            assert_eq!(resolve_state(&evidence), state);
        }
    }

    #[test]
    fn behind_a_closed_gate_nobody_is_believed() {
        let inside = Some(ExecEvidence { reported_passed: true, kubelet_ready: Some(true) });
        let evidence =
            Evidence { gate_closed: true, probe_verdict: Some(ProbeVerdict::Passed), exec_probes: inside, ..RUNNING };
        assert_eq!(resolve_state(&evidence), State::Waiting);
    }

    #[test]
    fn a_probe_that_passes_before_the_container_started_is_a_neighbours() {
        assert_eq!(
            resolve_state(&Evidence { started: false, probe_verdict: Some(ProbeVerdict::Passed), ..RUNNING }),
            State::Waiting
        );
    }

    #[test]
    fn without_probes_started_is_ready() {
        assert_eq!(resolve_state(&RUNNING), State::Ready);
    }

    #[test]
    fn our_own_probing_decides() {
        for (word, state) in [
            (ProbeVerdict::NotYet, State::Started),
            (ProbeVerdict::Passed, State::Ready),
            (ProbeVerdict::Failing, State::NotReady),
        ] {
            assert_eq!(resolve_state(&Evidence { probe_verdict: Some(word), ..RUNNING }), state);
        }
    }

    #[test]
    fn what_runs_inside_is_reported_or_left_to_the_kubelet() {
        let at = |reported, kubelet_ready, was_ready| {
            resolve_state(&Evidence {
                exec_probes: Some(ExecEvidence { reported_passed: reported, kubelet_ready }),
                was_ready,
                ..RUNNING
            })
        };
        assert_eq!(at(false, None, false), State::Started);
        assert_eq!(at(true, None, false), State::Ready);
        assert_eq!(at(false, Some(true), false), State::Ready);
        assert_eq!(at(true, Some(false), false), State::Ready, "the kubelet has not looked yet");
        assert_eq!(at(true, Some(false), true), State::NotReady);
        assert_eq!(at(true, None, true), State::Ready);
        let both = Evidence {
            probe_verdict: Some(ProbeVerdict::NotYet),
            exec_probes: Some(ExecEvidence { reported_passed: true, kubelet_ready: None }),
            ..RUNNING
        };
        assert_eq!(resolve_state(&both), State::Started);
    }
}

//! Decides a container's state from the available evidence, in this order of precedence:
//!
//! 1. The container has exited.
//! 2. Its entrypoint gate is closed: the state is `Waiting`, even if a probe passes or the kubelet reports `ready`.
//!    Another container may use the probed port, and the kubelet counts a waiting gate as a running container.
//! 3. The sidecar's own probes.
//! 4. The report of the container's agent, because `exec` probes can only run inside the container.
//! 5. The kubelet's `ready`, only if items 3 and 4 do not apply and the value is known to be current.

use crate::core::probe::ProbeVerdict;
use crate::core::state::State;

/// Evidence about one container at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Exit code of the current incarnation. `None` while this incarnation runs or waits.
    pub exit_code: Option<i32>,
    /// True if the container has an entrypoint gate whose opening has not been reported.
    pub gate_closed: bool,
    /// True if the container's process runs, according to a report, the kubelet or a listening socket.
    pub started: bool,
    /// Verdict of the sidecar's probes. `None` if the sidecar cannot run any of the container's probes.
    pub probe_verdict: Option<ProbeVerdict>,
    /// Evidence about `exec` probes. `None` if the container has no such probes.
    pub exec_probes: Option<ExecEvidence>,
    /// True if this incarnation was `Ready` before.
    pub was_ready: bool,
}

/// Evidence about probes that can only run inside the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecEvidence {
    /// True if the container's agent has reported that the `exec` probes passed.
    pub reported_passed: bool,
    /// The kubelet's `ready`.
    pub kubelet: KubeletReady,
}

/// The kubelet's `ready` status of one incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KubeletReady {
    /// The current status. `None` if it may be outdated.
    pub current: Option<bool>,
    /// True if the status was "ready" before.
    pub was_ready: bool,
}

/// Returns the state that follows from the evidence.
pub fn resolve_state(evidence: &Evidence) -> State {
    let Evidence { exit_code, gate_closed, started, probe_verdict: probed, exec_probes: exec, was_ready } = *evidence;
    if let Some(code) = exit_code {
        return if code == 0 { State::Completed } else { State::Failed };
    }
    if gate_closed || !started {
        return State::Waiting;
    }
    // The agent reports earlier than the kubelet that the probes pass. Only a wrapped probe withdraws its report. Once
    // the kubelet has reported "ready" too, the kubelet's later "not ready" takes precedence over the agent's report.
    let inside =
        exec.map(|e| e.kubelet.current.unwrap_or(e.reported_passed) || e.reported_passed && !e.kubelet.was_ready);
    let not_ready = if was_ready { State::NotReady } else { State::Started };
    match (probed, inside) {
        (Some(ProbeVerdict::Failing), _) => State::NotReady,
        (Some(ProbeVerdict::NotYet | ProbeVerdict::StartupFailed | ProbeVerdict::StartupPassed), _)
        | (_, Some(false)) => not_ready,
        (Some(ProbeVerdict::Passed) | None, Some(true) | None) => State::Ready,
    }
}

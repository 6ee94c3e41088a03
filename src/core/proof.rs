//! Decides for each state of a container if the sidecar can prove the state without the API. The planner and the
//! sidecar ask the same functions. So each condition has a proof, or a finding before the start and a reason at the
//! gate.

use crate::core::container::{Container, Mode, Probe};
use crate::core::until::WantedState;

impl Container {
    /// Returns true if only the kubelet's status proves that this container is in the state `want`. The sidecar reads
    /// that status from the API, which needs podgate's role.
    pub fn needs_kubelet_status(&self, want: WantedState) -> bool {
        let is_exec = |probe: &Option<Probe>| probe.as_ref().is_some_and(Probe::is_exec);
        let (startup, readiness) = (is_exec(&self.startup_probe), is_exec(&self.readiness_probe));
        let has_network = self.probes().any(|probe| !probe.is_exec());
        match (self.mode, want) {
            // The agent is in the container, runs its exec probes, and reports its exit.
            (Mode::Entrypoint, _) | (Mode::PostStart, WantedState::Started | WantedState::Ready) => false,
            // A container may exit before any hook runs.
            (_, WantedState::Completed | WantedState::Exited) => true,
            // The sidecar runs network probes itself.
            (_, WantedState::Started) if has_network => false,
            // Podgate wraps only the readinessProbe. The kubelet runs that probe after the startupProbe.
            (_, WantedState::Ready) if startup && !readiness => true,
            (_, WantedState::Ready) if has_network && !readiness => false,
            _ => !self.reports_start,
        }
    }

    /// Returns true if the kubelet's `ready` status is evidence about this container: the kubelet runs its `exec`
    /// probe, and no wrapped probe reports each result. The sidecar then needs the annotation that shows a restart of
    /// the kubelet.
    pub fn uses_kubelet_ready(&self) -> bool {
        let has_gate_or_hook = matches!(self.mode, Mode::Entrypoint | Mode::PostStart);
        let is_unwrapped = has_gate_or_hook && !self.reports_start || self.needs_kubelet_status(WantedState::Ready);
        self.probes().any(Probe::is_exec) && is_unwrapped
    }

    /// Returns true if only the kubelet's status proves that this container has restarted.
    pub fn restart_needs_kubelet_status(&self) -> bool {
        self.mode != Mode::Entrypoint && !self.reports_start
    }
}

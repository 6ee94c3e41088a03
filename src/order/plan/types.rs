//! Types of a plan.

use crate::core::argv::Check;
use crate::core::container::{Container, Mode, Probe};
use crate::core::until::WaitCondition;
use crate::order::declare::ready::ReadyCheck;
use crate::order::declare::{Publish, SidecarUse};
use crate::order::dollars;
use crate::order::finding::Finding;
use crate::order::kubernetes_version::Version;
use crate::order::sidecar_settings::SidecarSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Plan for starting and stopping a Pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// All regular containers, in the order in which the kubelet must start them.
    pub containers: Vec<ContainerPlan>,
    /// Init containers and native sidecars that the order names as predecessors, in list order.
    pub init: Vec<InitPlan>,
    /// Declared resources of the sidecar; `None` for the default.
    pub sidecar_resources: Option<Value>,
    /// Settings of podgate's programs in this Pod.
    pub sidecar_settings: SidecarSettings,
    /// True if the Pod gets podgate's sidecar. Otherwise, each gate runs the probes of its predecessors itself.
    pub has_sidecar: bool,
    /// True if the order needs the sidecar.
    pub needs_sidecar: bool,
    /// Target to which the sidecar publishes states: the API server, or the board alone.
    pub publish: Publish,
    /// The Pod's grace period: `terminationGracePeriodSeconds`, 30 s by default.
    pub grace: Duration,
    /// Conditions that only the kubelet's status proves, which the sidecar reads with podgate's role.
    pub unprovable_conditions: BTreeSet<String>,
    /// Warnings and notes. A plan never contains errors.
    pub findings: Vec<Finding>,
}

/// One container of a [`Plan`].
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings and facts")]
pub struct ContainerPlan {
    /// Name of the container.
    pub name: String,
    /// Index of the container in the manifest's `spec.containers`.
    pub index: usize,
    /// Mechanism that makes the container wait.
    pub mode: PlannedMode,
    /// Reason for the mode, for messages, such as `its command is not known`.
    pub mode_reason: String,
    /// Declared conditions: the containers and states that this container waits for.
    pub after: Vec<WaitCondition>,
    /// Check that replaces the container's probes as evidence that the container is Ready.
    pub ready: Option<ReadyCheck>,
    /// Time limit for the container's wait.
    pub timeout: Duration,
    /// True if the container continues after a time-out; false if the container fails.
    pub continue_on_timeout: bool,
    /// True if the wait fails as soon as a required container exits for good, is in back-off or cannot pull its image.
    pub fail_fast: bool,
    /// The exec readinessProbe, if podgate wraps its command. The sidecar then learns the result before the kubelet.
    pub wrapped_probe: Option<Probe>,
    /// True for a postStart hook that reports the container's start, returns at once and leaves a tether. Used if
    /// nothing else shows without the API that the container runs.
    pub reports_start: bool,
    /// Containers that this container must outlive when the Pod stops, in list order.
    pub outlives: Vec<String>,
    /// True if another container must outlive this one.
    pub is_outlived: bool,
    /// Upper bound for the duration of the preStop hook. Always below [`Plan::grace`] and below the bound of every
    /// container that outlives this one.
    pub pre_stop_limit: Duration,
    /// Containers of a Job that must all exit before podgate stops this container. Empty unless this container is one
    /// of the Job's sidecars.
    pub stop_after: Vec<String>,
    /// Request by which the sidecar makes this container exit when all other containers have ended.
    pub quit: Option<String>,
}

/// Gate or postStart hook of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum PlannedMode {
    /// No gate and no postStart hook. The container may still have a preStop hook.
    #[default]
    None,
    /// A postStart hook that waits for these conditions. The hook blocks the kubelet.
    PostStart(Vec<WaitCondition>),
    /// A gate in front of the command, which waits for the conditions in `after`, if there are any.
    Entrypoint(GatePlan),
    /// A gate at the kubelet, which creates the container when the conditions in `after` are met.
    Hold,
}

/// A gate in front of a container's command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatePlan {
    /// Checks that the gate runs before the command.
    pub checks: Vec<Check>,
    /// Containers whose restart makes the gate restart its own container.
    pub restarts_with: Vec<String>,
    /// Program and arguments that the container runs without podgate, from the spec, the annotation or the image.
    pub command: Vec<String>,
    /// True if the gate must remain the command's parent process, to report the exit code, stop the command or run an
    /// `exec` probe.
    pub needs_parent: bool,
}

/// An init container or native sidecar that regular containers wait for. Podgate never changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitPlan {
    /// Name of the container.
    pub name: String,
    /// Index of the container in the manifest's `spec.initContainers`.
    pub index: usize,
    /// True for a native sidecar.
    pub is_native: bool,
    /// True if podgate probes the container or watches for its restarts; false if Kubernetes itself keeps the order.
    pub is_probed: bool,
}

/// Facts that the manifest does not contain.
#[derive(Debug, Clone, Default)]
pub struct KnownFacts {
    /// `Entrypoint` and `Cmd` of each known image, by the name of the container.
    pub images: BTreeMap<String, ImageCommand>,
    /// Version of the cluster's API server; `None` if not known.
    pub kubernetes: Option<Version>,
    /// Use of the sidecar in templates without `podgate.io/sidecar`; `None` for that of the last injection, or
    /// `always`.
    pub sidecar: Option<SidecarUse>,
    /// Target of templates without `podgate.io/publish`; `None` for that of the last injection, or the API server.
    pub publish: Option<Publish>,
}

/// An image's `Entrypoint` and `Cmd`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "an object with entrypoint, cmd and digest")]
pub struct ImageCommand {
    /// `Entrypoint` of the image. A container's `command` replaces `Entrypoint` and `Cmd`.
    pub entrypoint: Vec<String>,
    /// `Cmd` of the image. A container's `args` replaces `Cmd`.
    pub cmd: Vec<String>,
    /// Digest of the tag, `sha256:…`, if known. For a multi-platform image, the digest of the index.
    pub digest: String,
}

impl ImageCommand {
    /// Returns the words in the syntax of a spec, in which the kubelet expands `$(NAME)`. Omits `Cmd` if the spec has
    /// `args`, which replace it.
    pub fn escaped_words(&self, has_args: bool) -> Vec<String> {
        self.entrypoint.iter().chain(self.cmd.iter().filter(|_| !has_args)).map(|word| dollars::escape(word)).collect()
    }
}

impl Plan {
    /// Requirements of an order without a sidecar.
    pub const NEEDS_WITHOUT_SIDECAR: &str = "needs image volumes: Kubernetes 1.35 and containerd 2.1";

    /// Returns true if the container `name` is held.
    pub fn is_held(&self, name: &str) -> bool {
        self.get(name).is_some_and(|planned| planned.mode == PlannedMode::Hold)
    }

    /// Returns the plan of the container `name`.
    pub fn get(&self, name: &str) -> Option<&ContainerPlan> {
        self.containers.iter().find(|planned| planned.name == name)
    }
}

impl ContainerPlan {
    /// Returns the kind of podgate's gate or hook in this container.
    pub fn mode(&self) -> Mode {
        match self.mode {
            PlannedMode::None => Mode::None,
            PlannedMode::PostStart(_) => Mode::PostStart,
            PlannedMode::Entrypoint(_) => Mode::Entrypoint,
            PlannedMode::Hold => Mode::Hold,
        }
    }

    /// Returns the container's entry in the sidecar's list: `entry` with the fields that the plan determines.
    pub(crate) fn list_entry(&self, mut entry: Container) -> Container {
        (entry.mode, entry.until, entry.quit) = (self.mode(), self.gate_or_hook_conditions(), self.quit.clone());
        entry.reports_start = self.reports_start || self.wrapped_probe.is_some();
        self.ready.iter().for_each(|ready| ready.replace_probes(&mut entry));
        entry
    }

    /// Returns the gate in front of the container's command.
    pub fn entrypoint_gate(&self) -> Option<&GatePlan> {
        if let PlannedMode::Entrypoint(gate) = &self.mode { Some(gate) } else { None }
    }

    /// Returns the containers whose restart also restarts this one.
    pub fn restarts_with(&self) -> &[String] {
        self.entrypoint_gate().map_or(&[], |gate| &gate.restarts_with)
    }

    /// Returns the checks that the container's gate runs before the command.
    pub fn checks(&self) -> &[Check] {
        self.entrypoint_gate().map_or(&[], |gate| &gate.checks)
    }

    /// Returns the conditions of the gate or of the postStart hook.
    pub fn gate_or_hook_conditions(&self) -> Vec<WaitCondition> {
        match &self.mode {
            PlannedMode::None => Vec::new(),
            PlannedMode::PostStart(until) => until.clone(),
            PlannedMode::Entrypoint(_) | PlannedMode::Hold => self.after.clone(),
        }
    }

    /// Returns true if the container's gate is closed at first.
    pub fn has_closed_gate(&self) -> bool {
        matches!(self.mode, PlannedMode::Entrypoint(_) | PlannedMode::Hold)
            && !(self.after.is_empty() && self.checks().is_empty())
    }

    /// Returns true if podgate's postStart hook waits, which blocks the kubelet.
    pub fn has_blocking_hook(&self) -> bool {
        matches!(self.mode, PlannedMode::PostStart(_))
    }

    /// Returns true if the container has a postStart hook of podgate.
    pub fn has_hook(&self) -> bool {
        self.has_blocking_hook() || self.reports_start
    }

    /// Returns true if podgate ends this container of a Job when the other containers have ended.
    pub fn is_ended_with_job(&self) -> bool {
        !self.stop_after.is_empty() || self.quit.is_some()
    }

    /// Returns true if the postStart hook must leave a tether (`--tether`), which shows how long the container runs.
    /// Without a postStart hook, the preStop hook leaves the tether. A gate has a tether anyway.
    pub fn hook_needs_tether(&self) -> bool {
        self.entrypoint_gate().is_none() && (self.is_outlived || self.reports_start)
    }

    /// Returns true if podgate must change this container.
    pub fn is_modified(&self) -> bool {
        self.mode != PlannedMode::None
            || self.wrapped_probe.is_some()
            || !self.outlives.is_empty()
            || self.hook_needs_tether()
    }
}

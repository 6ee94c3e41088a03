//! Types of a plan.

use crate::core::container::Mode;
use crate::core::until::WaitCondition;
use crate::order::declare::{Publish, SidecarPlacement};
use crate::order::finding::Finding;
use std::collections::BTreeMap;
use std::time::Duration;

/// Plan for starting and stopping a Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All regular containers, in the order in which the kubelet must start them.
    pub containers: Vec<ContainerPlan>,
    /// Position of the sidecar.
    pub sidecar_placement: SidecarPlacement,
    /// Target for published states: the API, or the board alone.
    pub publish: Publish,
    /// The Pod's grace period: `terminationGracePeriodSeconds`, 30 s by default.
    pub grace: Duration,
    /// Warnings and notes, no errors.
    pub findings: Vec<Finding>,
}

/// One container of a [`Plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerPlan {
    /// Its name.
    pub name: String,
    /// Its index in the manifest's `spec.containers`.
    pub index: usize,
    /// Gate or hook; `None` if it has neither. It may still have a preStop hook.
    pub mode: Mode,
    /// Reason for the mode, for people: `its command is not known`. Empty for `None`.
    pub mode_reason: String,
    /// In entrypoint mode the conditions of its gate, possibly none. In post-start mode the own state that its hook
    /// waits for: `Started` if the containers that wait for it have gates, so that the hook does not block the kubelet.
    pub until: Vec<WaitCondition>,
    /// Declared edges: the containers and states that it waits for.
    pub after: Vec<WaitCondition>,
    /// Program and arguments that the container runs without podgate: `command` and `args`, or those of the annotation
    /// or image. `None` if not known; always known in entrypoint mode.
    pub command: Option<Vec<String>>,
    /// The gate must stay as the parent, to report the exit code, to stop the command or to run an `exec` probe.
    pub needs_parent: bool,
    /// In post-start mode, the hook must leave a tether (`--tether`), because another container outlives this one.
    pub needs_tether: bool,
    /// Time limit for its wait.
    pub timeout: Duration,
    /// After a time-out, continue (`true`) or fail.
    pub continue_on_timeout: bool,
    /// Give up as soon as a required container exits for good, is in back-off or cannot pull its image.
    pub fail_fast: bool,
    /// Containers that it must outlive when the Pod stops, in list order.
    pub outlives: Vec<String>,
    /// Another container outlives it.
    pub is_outlived: bool,
    /// Upper bound for its preStop hook. Always below [`Plan::grace`] and below the bound of every container that
    /// outlives it.
    pub pre_stop_limit: Duration,
    /// In a Job: podgate stops it when these have exited.
    pub stop_after: Vec<String>,
}

/// Commands of images, which are not in the manifest.
#[derive(Debug, Clone, Default)]
pub struct KnownImages {
    /// `Entrypoint` and `Cmd` of the image of each container, if known.
    pub images: BTreeMap<String, ImageCommand>,
}

/// An image's `Entrypoint` and `Cmd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageCommand {
    /// `Entrypoint`; a container's `command` replaces both.
    pub entrypoint: Vec<String>,
    /// `Cmd`; a container's `args` replaces it.
    pub cmd: Vec<String>,
}

impl Plan {
    /// Returns the container of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ContainerPlan> {
        self.containers.iter().find(|planned| planned.name == name)
    }
}

impl ContainerPlan {
    /// Returns true if podgate must change this container.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.mode != Mode::None || !self.outlives.is_empty()
    }
}

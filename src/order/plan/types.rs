//! A plan, as types.

use crate::core::container::Mode;
use crate::core::until::WaitCondition;
use crate::order::declare::{Publish, SidecarPlacement};
use crate::order::finding::Finding;
use std::collections::BTreeMap;
use std::time::Duration;

/// How the whole Pod starts and stops.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All regular containers, in the order in which the kubelet is to start them.
    pub containers: Vec<ContainerPlan>,
    /// Where the sidecar stands.
    pub sidecar_placement: SidecarPlacement,
    /// Whether the sidecar speaks to the API, or goes by the board alone.
    pub publish: Publish,
    /// The Pod's grace period, in seconds: `terminationGracePeriodSeconds`, 30 if left out.
    pub grace: Duration,
    /// What is to be said about it: warnings and notes, no errors.
    pub findings: Vec<Finding>,
}

/// One container of a [`Plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerPlan {
    /// Its name.
    pub name: String,
    /// Its index in the manifest's `spec.containers`.
    pub index: usize,
    /// How it waits; `None` where podgate has nothing to hold in it (it may stay for others all the same).
    pub mode: Mode,
    /// Why this mode, for people: `its command is not known`. Empty in `None`.
    pub mode_reason: String,
    /// In entrypoint mode, what its gate waits for, and may be empty; in post-start mode its own state, for which its hook waits:
    /// `Started` where those after it have gates, so that nothing stands still for long.
    pub until: Vec<WaitCondition>,
    /// The edges as declared: whom it comes after, and the state of those that it needs.
    pub after: Vec<WaitCondition>,
    /// The program and its arguments, whole, as the container runs them without podgate: `command` and `args`, or what the
    /// annotation or the image gives. `None` where it is not known; always known in entrypoint mode.
    pub command: Option<Vec<String>>,
    /// The gate has to stay as the parent: somebody waits for its exit code, it is to be ended, or an `exec` probe must run inside.
    pub needs_parent: bool,
    /// In post-start mode, the hook has to leave a tether behind (`--tether`): somebody stays for this container.
    pub needs_tether: bool,
    /// How long it may wait.
    pub timeout: Duration,
    /// A wait that is over goes on (`true`) or fails.
    pub continue_on_timeout: bool,
    /// A wait that is in vain is given up at once.
    pub fail_fast: bool,
    /// At the Pod's end it stays until these have exited; in the order of the list.
    pub outlives: Vec<String>,
    /// Others stay for it.
    pub is_outlived: bool,
    /// The longest that its preStop hook may take: less than [`Plan::grace`], and less than that of whom it is stayed for by.
    pub pre_stop_limit: Duration,
    /// In a Job: it is ended when these have exited.
    pub stop_after: Vec<String>,
}

/// What is known beside the manifest.
#[derive(Debug, Clone, Default)]
pub struct KnownImages {
    /// Program and arguments by the image's own configuration (`Entrypoint`, `Cmd`), by container.
    pub images: BTreeMap<String, ImageCommand>,
}

/// An image's `Entrypoint` and `Cmd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageCommand {
    /// `Entrypoint`; `command` in a container replaces both.
    pub entrypoint: Vec<String>,
    /// `Cmd`; `args` in a container replaces it.
    pub cmd: Vec<String>,
}

impl Plan {
    /// The container of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ContainerPlan> {
        self.containers.iter().find(|planned| planned.name == name)
    }
}

impl ContainerPlan {
    /// Whether podgate has to put anything into this container.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.mode != Mode::None || !self.outlives.is_empty()
    }
}

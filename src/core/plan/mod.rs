//! What a Pod's annotations ask for, worked out: for each container how it waits, for whom, and for whom it stays.
//!
//! `inject` writes a plan into a manifest; `check` explains it.

use crate::core::container::Mode;
use crate::core::finding::Finding;
use crate::core::until::Until;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How the whole Pod starts and stops.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All regular containers, in the order in which the kubelet is to start them.
    pub containers: Vec<Planned>,
    /// Where the sidecar stands.
    pub sidecar: Sidecar,
    /// Whether the sidecar speaks to the API, or goes by the board alone.
    pub publish: Publish,
    /// The Pod's grace period, in seconds: `terminationGracePeriodSeconds`, 30 if left out.
    pub grace: Duration,
    /// What is to be said about it: warnings and notes, no errors.
    pub findings: Vec<Finding>,
}

/// One container of a [`Plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// Its index in the manifest's `spec.containers`.
    pub index: usize,
    /// How it waits; `None` where podgate has nothing to do in it.
    pub mode: Mode,
    /// In entrypoint mode, what its gate waits for; in post-start mode its own state, for which its hook waits. May be empty.
    pub until: Vec<Until>,
    /// The edges as declared: whom it comes after, and the state of those that it needs.
    pub after: Vec<Until>,
    /// The program and its arguments, whole, as the container runs them without podgate: `command` and `args`, or what the
    /// annotation or the image gives. `None` where it is not known; always known in entrypoint mode.
    pub command: Option<Vec<String>>,
    /// The gate has to stay as the parent: somebody waits for its exit code, or an `exec` probe must run inside.
    pub parent: bool,
    /// How long it may wait.
    pub timeout: Duration,
    /// A wait that is over goes on (`true`) or fails.
    pub continue_on_timeout: bool,
    /// At the Pod's end it stays until these have exited; in the order of the list.
    pub stays_for: Vec<String>,
    /// The longest that its preStop hook may take: less than [`Plan::grace`], and less than that of whom it is stayed for by.
    pub stop_grace: Duration,
    /// In a Job: it is ended when these have exited.
    pub stop_after: Vec<String>,
}

/// Where the sidecar stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sidecar {
    /// First among the init containers, with `restartPolicy: Always`. Kubernetes 1.29.
    Native,
    /// First among the regular containers.
    First,
}

/// Where states are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// The board, then annotations.
    Api,
    /// The board alone: no token.
    Board,
}

/// What is known beside the manifest.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Program and arguments by the image's own configuration (`Entrypoint`, `Cmd`), by container.
    pub images: BTreeMap<String, ImageCommand>,
    /// The kind of the workload that the template belongs to: `Job`, `Deployment`; empty for a bare Pod.
    pub kind: String,
}

/// An image's `Entrypoint` and `Cmd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageCommand {
    /// `Entrypoint`; `command` in a container replaces both.
    pub entrypoint: Vec<String>,
    /// `Cmd`; `args` in a container replaces it.
    pub cmd: Vec<String>,
}

/// Works out what `template` (an object with `metadata` and `spec`) declares.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn plan(_template: &Value, _known: &Known) -> Result<Plan, Vec<Finding>> {
    Err(Vec::new())
}

//! What a Pod's annotations ask for, worked out: for each container how it waits, for whom, and for whom it stays.
//!
//! `inject` writes a plan into a manifest; `check` explains it.
//!
//! | module | holds |
//! |---|---|
//! | `graph` | who waits for whom, and cycles |
//! | `modes` | who waits by a gate and who is held back by hooks |
//! | `placing` | the order of the list |
//! | `stopping` | who stays for whom, and how long |

mod build;
mod graph;
mod modes;
mod placing;
mod stopping;
#[cfg(test)]
mod tests;

use crate::core::container::Mode;
use crate::core::until::Until;
use crate::order::finding::Finding;
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
    /// How it waits; `None` where podgate has nothing to hold in it (it may stay for others all the same).
    pub mode: Mode,
    /// Why this mode, for people: `its command is not known`. Empty in `None`.
    pub because: String,
    /// In entrypoint mode, what its gate waits for, and may be empty; in post-start mode its own state, for which its hook waits:
    /// `Started` where those after it have gates, so that nothing stands still for long.
    pub until: Vec<Until>,
    /// The edges as declared: whom it comes after, and the state of those that it needs.
    pub after: Vec<Until>,
    /// The program and its arguments, whole, as the container runs them without podgate: `command` and `args`, or what the
    /// annotation or the image gives. `None` where it is not known; always known in entrypoint mode.
    pub command: Option<Vec<String>>,
    /// The gate has to stay as the parent: somebody waits for its exit code, it is to be ended, or an `exec` probe must run inside.
    pub parent: bool,
    /// In post-start mode, the hook has to leave a tether behind (`--tether`): somebody stays for this container.
    pub tether: bool,
    /// How long it may wait.
    pub timeout: Duration,
    /// A wait that is over goes on (`true`) or fails.
    pub continue_on_timeout: bool,
    /// A wait that is in vain is given up at once.
    pub fail_fast: bool,
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
    /// First among the init containers, with `restartPolicy: Always`.
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
}

/// An image's `Entrypoint` and `Cmd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageCommand {
    /// `Entrypoint`; `command` in a container replaces both.
    pub entrypoint: Vec<String>,
    /// `Cmd`; `args` in a container replaces it.
    pub cmd: Vec<String>,
}

/// Works out what `template` (an object with `metadata` and `spec`, nothing of podgate's injected) declares. Where nothing is
/// declared, that is a plan in which podgate has nothing to do.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn plan(template: &Value, known: &Known) -> Result<Plan, Vec<Finding>> {
    build::plan(template, known)
}

impl Plan {
    /// The container of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Planned> {
        self.containers.iter().find(|planned| planned.name == name)
    }
}

impl Planned {
    /// Whether podgate has to put anything into this container.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.mode != Mode::None || !self.stays_for.is_empty()
    }
}

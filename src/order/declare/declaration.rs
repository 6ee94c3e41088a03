//! Types for everything that the annotations of a template can declare.

use super::grammar::Item;
use crate::core::until::WaitCondition;
use crate::order::edit::Place;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Time limit for a wait if the manifest sets none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Mode that the user asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestedMode {
    /// A gate if the container's command is known, otherwise hooks.
    #[default]
    Auto,
    /// Hooks in the containers before it.
    PostStart,
    /// A gate in front of its own command.
    Entrypoint,
}

impl RequestedMode {
    /// Returns the value that users write.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RequestedMode::Auto => "auto",
            RequestedMode::PostStart => "post-start",
            RequestedMode::Entrypoint => "entrypoint",
        }
    }
}

/// Declares that one container waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Container that waits.
    pub waiter: String,
    /// Container and state that it waits for.
    pub until: WaitCondition,
    /// Annotation that declares it.
    pub at: Place,
    /// Range in the annotation's text, in bytes.
    pub span: Range<usize>,
}

/// Order in which containers stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StopOrder {
    /// The reverse of the start order; all at once in a Pod that runs to completion.
    #[default]
    Auto,
    /// The reverse of the start order.
    Reverse,
    /// All at once.
    None,
    /// Step by step: the containers of a step stop when those of the previous step have exited.
    Steps(Vec<Vec<Item>>),
}

/// Position of the sidecar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SidecarPlacement {
    /// First among the init containers, with `restartPolicy: Always`.
    #[default]
    Native,
    /// First among the regular containers.
    First,
}

/// Target to which the sidecar publishes states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Publish {
    /// The board, then annotations.
    #[default]
    Api,
    /// The board alone; the sidecar needs no token.
    Board,
}

/// Everything that a template's annotations declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declaration {
    /// Waits declared by `podgate.io/order` and all `after.podgate.io/…`.
    pub edges: Vec<Edge>,
    /// `podgate.io/mode`.
    pub mode: RequestedMode,
    /// `mode.podgate.io/…`.
    pub modes: BTreeMap<String, RequestedMode>,
    /// `podgate.io/timeout`.
    pub timeout: Duration,
    /// `timeout.podgate.io/…`.
    pub timeouts: BTreeMap<String, Duration>,
    /// `podgate.io/on-timeout` is `continue`.
    pub continue_on_timeout: bool,
    /// `podgate.io/fail-fast` is `true`.
    pub fail_fast: bool,
    /// `command.podgate.io/…`.
    pub commands: BTreeMap<String, Vec<String>>,
    /// `podgate.io/stop-order`.
    pub stop_order: StopOrder,
    /// `podgate.io/sidecars`.
    pub sidecars: Vec<Item>,
    /// `podgate.io/sidecar`.
    pub sidecar_placement: SidecarPlacement,
    /// `podgate.io/publish`.
    pub publish: Publish,
}

//! What the annotations of a template can declare, as types.

use super::grammar::Item;
use crate::core::until::WaitCondition;
use crate::order::edit::Place;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// How long a wait may take where nothing is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How a container is to wait, as asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestedMode {
    /// By a gate where its command is known, else by hooks.
    #[default]
    Auto,
    /// By hooks in those before it.
    PostStart,
    /// By a gate in front of its own command.
    Entrypoint,
}

impl RequestedMode {
    /// As users write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RequestedMode::Auto => "auto",
            RequestedMode::PostStart => "post-start",
            RequestedMode::Entrypoint => "entrypoint",
        }
    }
}

/// One container waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Who waits.
    pub waiter: String,
    /// For whom, and for which state.
    pub until: WaitCondition,
    /// The annotation that says so.
    pub at: Place,
    /// Where in its text, in bytes.
    pub span: Range<usize>,
}

/// In which order containers stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StopOrder {
    /// The reverse of their start; all at once in a Pod that runs to its end.
    #[default]
    Auto,
    /// The reverse of their start.
    Reverse,
    /// All at once.
    None,
    /// Step by step: those of a step when those of the step before have exited.
    Steps(Vec<Vec<Item>>),
}

/// Where the sidecar stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SidecarPlacement {
    /// First among the init containers, with `restartPolicy: Always`.
    #[default]
    Native,
    /// First among the regular containers.
    First,
}

/// Where states are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Publish {
    /// The board, then annotations.
    #[default]
    Api,
    /// The board alone: no token.
    Board,
}

/// All that a template's annotations declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declaration {
    /// Who waits for whom, by `podgate.io/order` and all `after.podgate.io/…`.
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

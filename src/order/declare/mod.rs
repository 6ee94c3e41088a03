//! Reads what a template's annotations declare: every bad value is a finding, with its place and how to mend it.
//!
//! | module | holds |
//! |---|---|
//! | [`keys`] | the annotations' keys |
//! | [`grammar`] | the grammar of an order |
//! | [`spec`] | the containers that the annotations speak of |
//! | [`nearest`] | what a mistyped word may have meant |

pub mod grammar;
pub mod keys;
pub mod nearest;
mod read;
pub mod spec;
#[cfg(test)]
mod tests;

pub(crate) use read::both;
pub use read::read;

use crate::core::until::Until;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{Publish, Sidecar};
use grammar::Item;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// How long a wait may take where nothing is said.
pub const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Something that was said, with where it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<T> {
    /// What.
    pub value: T,
    /// Where.
    pub at: Place,
}

/// How a container is to wait, as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// By a gate where its command is known, else by hooks.
    Auto,
    /// By hooks in those before it.
    PostStart,
    /// By a gate in front of its own command.
    Entrypoint,
}

impl Wish {
    /// As users write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Wish::Auto => "auto",
            Wish::PostStart => "post-start",
            Wish::Entrypoint => "entrypoint",
        }
    }
}

/// One container waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Who waits.
    pub waiter: String,
    /// For whom, and for which state.
    pub needs: Until,
    /// The annotation that says so.
    pub at: Place,
    /// Where in its text, in bytes.
    pub word: Range<usize>,
}

/// In which order containers stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The reverse of their start.
    Reverse,
    /// All at once.
    None,
    /// Step by step: those of a step when those of the step before have exited.
    Steps(Vec<Vec<Item>>),
}

/// All that a template's annotations declare.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// Whether anything is declared: an order, a stop order or sidecars of a Job.
    pub is_declared: bool,
    /// The steps of `podgate.io/order`.
    pub steps: Vec<Vec<Item>>,
    /// Who waits for whom, by `podgate.io/order` and all `after.podgate.io/…`.
    pub edges: Vec<Edge>,
    /// `podgate.io/mode`.
    pub mode: Said<Wish>,
    /// `mode.podgate.io/…`.
    pub modes: BTreeMap<String, Said<Wish>>,
    /// `podgate.io/timeout`.
    pub timeout: Duration,
    /// `timeout.podgate.io/…`.
    pub timeouts: BTreeMap<String, Said<Duration>>,
    /// `podgate.io/on-timeout` is `continue`.
    pub continue_on_timeout: bool,
    /// `podgate.io/fail-fast` is `true`.
    pub fail_fast: bool,
    /// `command.podgate.io/…`.
    pub commands: BTreeMap<String, Said<Vec<String>>>,
    /// `podgate.io/stop-order`.
    pub stop: Said<Stop>,
    /// `podgate.io/stop-order` is written out.
    pub is_stop_stated: bool,
    /// `podgate.io/sidecars`.
    pub sidecars: Said<Vec<Item>>,
    /// `podgate.io/sidecar`.
    pub sidecar: Sidecar,
    /// `podgate.io/publish`.
    pub publish: Publish,
}

/// The place of a template's annotation.
#[must_use]
pub fn annotation(key: &str) -> Place {
    Place::root().to("metadata").to("annotations").to(key)
}

/// Whether a template declares an order, a stop order or the sidecars of a Job, rightly or wrongly.
#[must_use]
pub fn is_declared(template: &Value) -> bool {
    let annotations = template.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object) else { return false };
    annotations.keys().any(|key| keys::DECLARING.contains(&key.as_str()) || key.starts_with(keys::AFTER_PREFIX))
}

/// Whether any of `findings` is an error.
#[must_use]
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == crate::order::finding::Level::Error)
}

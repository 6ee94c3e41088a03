//! Confirmation of a gate's conditions at the moment of the decision. No I/O.

use std::collections::BTreeSet;
use std::time::Instant;

/// Observations that are still needed before a waiting gate may open. All its conditions have been met since `since`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(super) since: Instant,
    /// Containers that must pass one more probe that begins after `since`.
    pub(super) unconfirmed: BTreeSet<String>,
    /// True if the facts from the API are outdated and an update of the Pod is needed.
    pub(super) needs_pod_update: bool,
}

impl Confirmation {
    pub(crate) fn is_done(&self) -> bool {
        self.unconfirmed.is_empty() && !self.needs_pod_update
    }
}

//! Checks that are needed before a gate may open. No I/O.

use std::collections::BTreeSet;
use std::time::Instant;

/// Pending acknowledgment of a waiting gate, with the checks that are still needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingAck {
    pub(super) since: Instant,
    /// Containers that must pass one more probe.
    pub(super) unconfirmed: BTreeSet<String>,
    /// True if the facts from the API are outdated and an update of the Pod is needed.
    pub(super) needs_pod_update: bool,
}

impl PendingAck {
    pub(crate) fn is_done(&self) -> bool {
        self.unconfirmed.is_empty() && !self.needs_pod_update
    }
}

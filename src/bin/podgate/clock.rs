//! The agent's monotonic clock. Jumps of the wall clock don't change the length of a wait.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

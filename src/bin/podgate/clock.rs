//! The agent's clock. It is monotonic, so that jumps of the wall clock don't change a wait.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

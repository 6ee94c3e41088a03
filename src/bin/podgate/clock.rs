//! The agent's one clock: monotonic, so that a wall clock that jumps shortens or lengthens no wait.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

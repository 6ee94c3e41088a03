//! The sidecar's clocks. A test can pause the monotonic clock, because it is tokio's.

pub(crate) use podgate::clock::wall_clock;
use std::time::Instant;

/// Returns the time of the monotonic clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

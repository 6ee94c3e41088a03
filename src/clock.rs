//! The clocks: a monotonic clock for time limits, and the wall clock for published times.

use std::time::{Instant, SystemTime};

/// Returns the time of the monotonic clock. Jumps of the wall clock don't change the length of a wait.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the monotonic clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time of the wall clock.
#[expect(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
pub fn wall_clock() -> SystemTime {
    SystemTime::now()
}

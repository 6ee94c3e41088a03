//! Wall clock, to compare with the cluster's timestamps, and monotonic clock.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the monotonic time, for durations.
#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
pub(crate) fn monotonic_time() -> Instant {
    Instant::now()
}

//! Wall clock, for comparisons with the cluster's timestamps, and monotonic clock, for durations.

use std::time::{Instant, SystemTime};

#[expect(clippy::disallowed_methods, reason = "the only function that reads the wall clock")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the monotonic time. Changes of the wall clock do not affect the monotonic time.
#[expect(clippy::disallowed_methods, reason = "the only function that reads the monotonic clock")]
pub(crate) fn monotonic_time() -> Instant {
    Instant::now()
}

//! The clocks: what the cluster writes down is compared with that on the wall.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// For how long something lasts.
#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
pub(crate) fn monotonic_time() -> Instant {
    Instant::now()
}

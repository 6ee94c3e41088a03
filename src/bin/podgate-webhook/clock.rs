//! Reads the clocks. Every other module gets the time from here or as an argument.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

#[allow(clippy::disallowed_methods, reason = "the only place that reads the monotonic clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

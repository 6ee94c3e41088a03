//! The clocks: every other module takes the time from here or as an argument.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// For durations.
#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

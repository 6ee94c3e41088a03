//! The clocks: the wall clock for what the cluster writes down, a monotonic one for waiting.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

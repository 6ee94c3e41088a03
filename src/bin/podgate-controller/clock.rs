//! The sidecar's clocks: a monotonic one for time limits, and the wall clock for published times.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the only place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

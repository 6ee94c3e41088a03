//! The controller's clocks: a monotonic one for all waiting, and the wall clock for what people and the kubelet read.

use std::time::{Instant, SystemTime};

#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

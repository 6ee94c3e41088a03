//! The wall clock: what the cluster writes down is compared with it.

use std::time::SystemTime;

#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

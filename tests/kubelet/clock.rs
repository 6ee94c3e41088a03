//! Reads the wall clock, which all containers of this node share, and polls with a time limit.

use std::time::{Duration, Instant, SystemTime};

/// Returns milliseconds since 1970, the unit in which the programs in the containers log times.
#[allow(clippy::disallowed_methods, reason = "only this module reads this clock")]
pub(crate) fn wall_ms() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970").as_micros() as f64 / 1000.0
}

#[allow(clippy::disallowed_methods, reason = "only this module reads this clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Calls `poll` until it returns a value. Panics with the description `what` after `seconds`.
pub(crate) fn eventually<T>(what: &str, seconds: u64, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(now() < deadline, "timed out after {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

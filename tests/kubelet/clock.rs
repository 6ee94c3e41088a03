//! Time: of the wall clock, which the containers of this node share, and of waiting.

use std::time::{Duration, Instant, SystemTime};

/// Milliseconds since 1970, as the programs in the containers say them.
#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
pub(crate) fn wall_ms() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970").as_micros() as f64 / 1000.0
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads this clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks until there is something; panics with `what` when there is nothing after `seconds`.
pub(crate) fn eventually<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

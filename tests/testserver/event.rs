//! Prints one JSON line per event, with the time of the event.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Moment on the wall clock and on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    wall: Duration,
    monotonic: Duration,
}

impl Moment {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub(crate) fn now() -> Moment {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let monotonic = Duration::try_from(monotonic).unwrap_or_default();
        Moment { wall, monotonic }
    }

    /// Formats the JSON line of an event, with times in milliseconds. `ms` is the time of the wall clock, which all
    /// containers of a node share.
    fn line(self, event: &str, detail: &str) -> String {
        let ms = |d: Duration| d.as_micros() as f64 / 1000.0;
        let mut line = serde_json::json!({"event": event, "ms": ms(self.wall), "monotonic": ms(self.monotonic)});
        if !detail.is_empty() {
            line["detail"] = detail.into();
        }
        format!("{line}\n")
    }

    /// Prints that `event` happened at this moment.
    pub(crate) fn log(self, event: &str, detail: &str) {
        // Write and flush each line at once, so that no line is lost when the process is killed.
        let _ = std::io::stdout().lock().write_all(self.line(event, detail).as_bytes());
        let _ = std::io::stdout().lock().flush();
    }

    /// Writes the line to the container's log. This process may be a hook, whose own output does not reach the log.
    pub(crate) fn log_to_container(self, event: &str) -> std::io::Result<()> {
        OpenOptions::new().append(true).open("/proc/1/fd/1")?.write_all(self.line(event, "").as_bytes())
    }
}

/// Prints that `event` happens now.
pub(crate) fn log(event: &str, detail: &str) {
    Moment::now().log(event, detail);
}

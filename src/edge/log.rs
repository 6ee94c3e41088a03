//! Log lines as text or JSON, with UTC timestamps. This formatter is smaller than that of tracing-subscriber.

use crate::clock::wall_clock;
use crate::core::words::words;
use crate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

words! {
    /// Format of log lines. Value of `--log-format`.
    Format {
        /// One line per event: `2026-11-21T14:02:10.123Z INFO message field=value`.
        Text = "text",
        /// One JSON object per line, with `ts`, `level` and `msg`.
        Json = "json",
    }
}

/// Destination of log lines.
pub enum Target {
    /// Standard error.
    Stderr,
    /// A file, opened for appending.
    File(File),
}

/// Sends all events of `level` and above to `target`. Call this once from `main`. Later calls have no effect.
pub fn init(format: Format, level: Level, target: Target) {
    let layer = LineLayer { format, level, target };
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

const STDERR_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

struct LineLayer {
    format: Format,
    level: Level,
    target: Target,
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        // Skip events from libraries, because they don't help a reader of the pod's log.
        metadata.level() <= &self.level && metadata.target().starts_with("podgate")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let now = humantime::format_rfc3339_millis(wall_clock());
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = render(self.format, &now.to_string(), *event.metadata().level(), &fields);
        // A failed write to the log is not fatal.
        let _ = match &self.target {
            // Skip the line if no process reads the pipe, because the write would block podgate.
            Target::Stderr if !wait_until_ready(&io::stderr(), PollFlags::OUT, STDERR_TIMEOUT) => Ok(()),
            Target::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Target::File(file) => (&*file).write_all(line.as_bytes()),
        };
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    /// Rejects floats. No code logs floats, and formatting floats would add 15 kB to the agent.
    fn record_f64(&mut self, field: &Field, _: f64) {
        debug_assert!(false, "log {field} as text");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.others.push((name, value.to_owned())),
        }
    }
}

fn render(format: Format, now: &str, level: Level, fields: &Fields) -> String {
    let mut line = String::new();
    match format {
        Format::Text => {
            let _ = write!(line, "{now} {level} {}", fields.message);
            for (name, value) in &fields.others {
                let plain =
                    !value.is_empty() && value.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"');
                let _ = if plain { write!(line, " {name}={value}") } else { write!(line, " {name}={value:?}") };
            }
            // Print one line per event, even if the message contains newlines.
            line = line.replace(['\n', '\r'], " ");
        }
        Format::Json => {
            let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
            let level = level.as_str().to_ascii_lowercase();
            let _ = write!(line, "{{\"ts\":\"{now}\",\"level\":\"{level}\",\"msg\":{}", text(&fields.message));
            for (name, value) in &fields.others {
                let _ = write!(line, ",{}:{}", text(name), text(value));
            }
            line.push('}');
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_event_is_one_line() {
        let others = vec![("container", "db".to_owned()), ("why", "a \"b\"\n".to_owned())];
        let line = render(Format::Text, "T", Level::INFO, &Fields { message: "released".to_owned(), others });
        assert_eq!(line, "T INFO released container=db why=\"a \\\"b\\\"\\n\"\n");
    }
}

//! Argument types that several commands share.

use clap::ValueEnum;
use std::time::Duration;

/// Value of `--output`. The JSON object is a public interface: see docs/kubectl-podgate.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// Parses a time limit between a millisecond and a day.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration =
        humantime::parse_duration(text).map_err(|error| format!("{error}; write a duration such as 15s or 1m"))?;
    if (Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60)).contains(&duration) {
        Ok(duration)
    } else {
        Err("must be between 1ms and 1day".to_owned())
    }
}

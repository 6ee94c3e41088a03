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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_rejects_values_out_of_range() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "0s", "1", "2days", "-1s", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}

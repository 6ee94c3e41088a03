//! Values of arguments that several commands take.

use clap::ValueEnum;
use std::time::Duration;

/// Value of `--output`. The JSON object is an interface: see docs/kubectl-podgate.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

/// A time limit, between a millisecond and a day.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}; write 15s or 1m"))?;
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
    fn a_time_limit_is_neither_nothing_nor_for_ever() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "0s", "1", "2days", "-1s", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}

//! Parsers for values on the command line.

use podgate::core::argv::ParseError;
use podgate::core::names;
use podgate::core::until::{WaitCondition, WantedState};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum duration in seconds: 100 years, which can be added to any clock without overflow.
const DURATION_MAX_SECS: u64 = 100 * 365 * 24 * 60 * 60;

pub(super) fn container_name(text: &str) -> Result<String, &'static str> {
    if names::is_container_name(text) { Ok(text.to_owned()) } else { Err("not a container name") }
}

pub(super) fn duration(text: &str) -> Result<Duration, ParseError> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}; write 90s, 5m or 1h 30m"))?;
    if duration.as_secs() > DURATION_MAX_SECS { Err("longer than 100 years".into()) } else { Ok(duration) }
}

/// Parses a number, zero included. clap's own parser adds 4 kB to the binary.
pub(super) fn any_u32(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "not a number")
}

pub(super) fn interval(text: &str) -> Result<Duration, ParseError> {
    duration(text).and_then(|d| if d.is_zero() { Err("an interval cannot be zero".into()) } else { Ok(d) })
}

/// Parses a path of `--log-to`. Podgate writes log lines in its own process. A write to a file on a mount could block
/// the process, so only outputs of processes are allowed.
pub(super) fn log_output(text: &str) -> Result<PathBuf, &'static str> {
    match text.split('/').collect::<Vec<_>>()[..] {
        ["", "dev", _] | ["", "proc", _, "fd", _] => Ok(PathBuf::from(text)),
        _ => Err("not an output of a process; write /proc/1/fd/2"),
    }
}

/// Parses a condition of a preStop hook. Such a hook can only wait until a container has exited.
pub(super) fn pre_stop_condition(text: &str) -> Result<WaitCondition, ParseError> {
    let text = if text.contains('=') { text.to_owned() } else { format!("{text}={}", WantedState::Exited) };
    let until: WaitCondition = text.parse()?;
    if until.want.is_exit() {
        return Ok(until);
    }
    Err(format!("a preStop hook can only wait for an exit; write {}=Exited", until.container).into())
}

podgate::words! {
    /// Value of `--on-error`.
    OnError { Fail = "fail", Continue = "continue", }
}
podgate::words! {
    /// Value of `--tether`.
    TetherMode { Exec = "exec", Parent = "parent", None = "none", }
}

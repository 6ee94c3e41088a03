//! How values are written on the command line.

use podgate::core::argv::Check;
use podgate::core::names;
use podgate::core::until::{InvalidCondition, WaitCondition, WantedState};
use std::time::Duration;

/// Longest time limit, in seconds: a hundred years, which every clock can add.
const DURATION_MAX_SECS: u64 = 100 * 365 * 24 * 60 * 60;

/// What people write into the environment. clap's own reading of it is 20 kB.
pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" | "" => Ok(false),
        _ => Err("it is true or false"),
    }
}

pub(super) fn container_name(text: &str) -> Result<String, &'static str> {
    if names::is_container_name(text) { Ok(text.to_owned()) } else { Err("no container name") }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}; write 90s, 5m or 1h 30m"))?;
    if duration.as_secs() > DURATION_MAX_SECS { Err("longer than a hundred years".to_owned()) } else { Ok(duration) }
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|d| if d.is_zero() { Err("an interval can't be zero".to_owned()) } else { Ok(d) })
}

/// What a preStop hook waits for: that a container is gone.
pub(super) fn exit_condition(text: &str) -> Result<WaitCondition, String> {
    let text = if text.contains('=') { text.to_owned() } else { format!("{text}={}", WantedState::Exited) };
    let until: WaitCondition = text.parse().map_err(|error: InvalidCondition| error.to_string())?;
    match until.want {
        WantedState::Exited | WantedState::Completed => Ok(until),
        WantedState::Started | WantedState::Ready => {
            Err(format!("a container stays until others are gone; write {}=Exited", until.container))
        }
    }
}

/// A port that is to be closed.
pub(super) fn port_check(text: &str) -> Result<Check, String> {
    match text.parse() {
        Ok(check @ Check::Tcp { .. }) => Ok(check),
        Ok(_) => Err("only a port can be found closed: write tcp://HOST:PORT".to_owned()),
        Err(error) => Err(podgate::core::argv::ParseError::to_string(&error)),
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident: $($text:literal => $variant:ident),+; $error:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl std::str::FromStr for $name {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err($error),
                }
            }
        }
    };
}

choice! {
    /// Value of `--on-timeout` and `--on-error`.
    OnFailure: "fail" => Fail, "continue" => Continue; "it is fail or continue"
}
choice! {
    /// Value of `--tether`.
    TetherMode: "exec" => Exec, "parent" => Parent, "none" => None; "it is exec, parent or none"
}
choice! {
    /// Value of `--exit-code`.
    ExitCodeSource: "0" => Zero, "child" => Child; "it is 0 or child"
}
choice! {
    /// Value of `--on-provider-restart`.
    OnProviderRestart: "ignore" => Ignore, "restart" => Restart; "it is ignore or restart"
}

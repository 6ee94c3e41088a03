//! A container's state and the pod's phase, as annotations spell them.

use std::fmt;
use std::str::FromStr;

/// What is known of one container. Value of `status.podgate.io/CONTAINER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Not started yet, or its gate has not opened yet.
    Waiting,
    /// Its process runs (again); nothing has passed yet.
    Started,
    /// Its startup and readiness probes have passed, or it has none and runs.
    Ready,
    /// It was Ready, and its readiness probe fails now.
    NotReady,
    /// Exited with code 0.
    Completed,
    /// Exited with another code, or by a signal.
    Failed,
}

impl State {
    /// Every state, in the order of a container's life.
    pub const ALL: [State; 6] =
        [State::Waiting, State::Started, State::Ready, State::NotReady, State::Completed, State::Failed];

    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "Waiting",
            State::Started => "Started",
            State::Ready => "Ready",
            State::NotReady => "NotReady",
            State::Completed => "Completed",
            State::Failed => "Failed",
        }
    }

    /// Whether the container has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Completed | State::Failed)
    }
}

/// Where the pod's start stands. Value of `sandbox.podgate.io/phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Ordered containers are still to start.
    Starting,
    /// Every ordered container has started in this sandbox and epoch.
    Started,
    /// The pod has a `deletionTimestamp`.
    Terminating,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 3] = [Phase::Starting, Phase::Started, Phase::Terminating];

    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Started => "started",
            Phase::Terminating => "terminating",
        }
    }
}

/// A value that is none of those that podgate writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a value that podgate writes")]
pub struct Unknown;

impl FromStr for State {
    type Err = Unknown;
    fn from_str(text: &str) -> Result<Self, Unknown> {
        State::ALL.into_iter().find(|s| s.as_str() == text).ok_or(Unknown)
    }
}

impl FromStr for Phase {
    type Err = Unknown;
    fn from_str(text: &str) -> Result<Self, Unknown> {
        Phase::ALL.into_iter().find(|p| p.as_str() == text).ok_or(Unknown)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_reads_back() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(phase));
        }
    }

    #[test]
    fn anything_else_is_unknown() {
        for text in ["", "ready", "READY", "Ready ", "Running", "starting"] {
            assert_eq!(text.parse::<State>(), Err(Unknown), "{text}");
        }
        assert_eq!("Started".parse::<Phase>(), Err(Unknown));
    }
}

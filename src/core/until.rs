//! `CONTAINER[=STATE]`: a condition that a gate waits for.

use crate::core::argv::ParseError;
use crate::core::names;
use crate::core::snapshot::Snapshot;
use crate::core::state::State;
use crate::core::words::words;
use std::fmt;
use std::str::FromStr;

words! {
    /// State to wait for.
    #[derive(Default)]
    WantedState {
        /// The container's process has started. The process may have ended since then.
        Started = "Started",
        /// The container's probes have passed.
        #[default]
        Ready = "Ready",
        /// The container has exited with code 0.
        Completed = "Completed",
        /// The container has exited, with any code.
        Exited = "Exited",
    }
}

impl WantedState {
    /// Returns true if a container in this state has exited.
    pub fn is_exit(self) -> bool {
        matches!(self, WantedState::Completed | WantedState::Exited)
    }
}

/// One condition of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitCondition {
    /// Container to wait for.
    pub container: String,
    /// State that the container must reach.
    pub want: WantedState,
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition is met.
    Met,
    /// The condition is not met yet.
    NotYet,
    /// The condition cannot be met any more, because the container has ended and the kubelet will not restart it.
    Never,
}

impl WaitCondition {
    /// Returns the status of this condition in `snapshot`.
    pub fn status(&self, snapshot: &Snapshot) -> ConditionStatus {
        let Some(state) = snapshot.states.get(&self.container).copied() else { return ConditionStatus::NotYet };
        let met = match self.want {
            WantedState::Started => state.has_started(),
            WantedState::Ready => state == State::Ready,
            WantedState::Completed => state == State::Completed,
            WantedState::Exited => state.has_ended(),
        };
        if met {
            return ConditionStatus::Met;
        }
        // A container whose gate has ended is before its start.
        let over = (state.has_ended() || state.is_before_start()) && snapshot.has_ended_for_good(&self.container);
        if over { ConditionStatus::Never } else { ConditionStatus::NotYet }
    }

    /// Returns true if the condition is met in `snapshot`.
    pub fn is_met(&self, snapshot: &Snapshot) -> bool {
        self.status(snapshot) == ConditionStatus::Met
    }
}

impl FromStr for WaitCondition {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (name, want) = text.split_once('=').map_or((text, None), |(name, want)| (name, Some(want)));
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is not a container name; write CONTAINER or CONTAINER=STATE").into());
        }
        let want = match want {
            None => WantedState::default(),
            Some(text) => text.parse().map_err(|error| format!("{text:?} is not a state to wait for; {error}"))?,
        };
        Ok(WaitCondition { container: name.to_owned(), want })
    }
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.container, self.want)
    }
}

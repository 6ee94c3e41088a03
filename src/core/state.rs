//! A container's state and the pod's phase, spelled as in annotations.

use crate::core::words::words;

words! {
    /// State of a container. Value of `status.podgate.io/CONTAINER`.
    #[derive(PartialOrd, Ord)]
    State {
        /// Not started yet, or its gate has not opened yet.
        Waiting = "Waiting",
        /// Its process runs, but its probes have not passed since its start.
        Started = "Started",
        /// Its startup and readiness probes have passed, or it has none and runs.
        Ready = "Ready",
        /// It was Ready, and its readiness probe now fails.
        NotReady = "NotReady",
        /// Exited with code 0.
        Completed = "Completed",
        /// Exited with another code, or by a signal.
        Failed = "Failed",
    }
}

impl State {
    /// Returns true if the container has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Completed | State::Failed)
    }
}

words! {
    /// Phase of the pod. Value of `sandbox.podgate.io/phase`.
    Phase {
        /// Some ordered containers have not started yet.
        Starting = "starting",
        /// Every ordered container has started in this sandbox and epoch.
        Started = "started",
        /// The pod has a `deletionTimestamp`.
        Terminating = "terminating",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::words::Unknown;

    #[test]
    fn values_survive_a_round_trip() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(phase));
        }
    }

    #[test]
    fn other_spellings_are_rejected() {
        for text in ["", "ready", "READY", "Ready ", "Running", "starting"] {
            assert_eq!(text.parse::<State>(), Err(Unknown), "{text}");
        }
        assert_eq!("Started".parse::<Phase>(), Err(Unknown));
    }
}

//! A container's state and the pod's phase, as annotations spell them.

use crate::core::words::words;

words! {
    /// What is known of one container. Value of `status.podgate.io/CONTAINER`.
    #[derive(PartialOrd, Ord)]
    State {
        /// Not started yet, or its gate has not opened yet.
        Waiting = "Waiting",
        /// Its process runs (again); nothing has passed yet.
        Started = "Started",
        /// Its startup and readiness probes have passed, or it has none and runs.
        Ready = "Ready",
        /// It was Ready, and its readiness probe fails now.
        NotReady = "NotReady",
        /// Exited with code 0.
        Completed = "Completed",
        /// Exited with another code, or by a signal.
        Failed = "Failed",
    }
}

impl State {
    /// Whether the container has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Completed | State::Failed)
    }
}

words! {
    /// Where the pod's start stands. Value of `sandbox.podgate.io/phase`.
    Phase {
        /// Ordered containers are still to start.
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

//! A container's state and the pod's stage, spelled as in annotations.

use crate::core::words::words;

words! {
    /// State of a container. Value of `status.podgate.io/CONTAINER`.
    #[derive(Default, PartialOrd, Ord)]
    State {
        /// The container has not started, or its gate has not opened.
        #[default]
        Waiting = "Waiting",
        /// The container's process runs, but the probes have not passed since the start.
        Started = "Started",
        /// The startup and readiness probes have passed, or the container runs without such probes.
        Ready = "Ready",
        /// The container was Ready, and its readiness probe now fails.
        NotReady = "NotReady",
        /// The container has exited with code 0.
        Completed = "Completed",
        /// The container has exited with another code, or a signal has ended its process.
        Failed = "Failed",
        /// The wait of a held container has timed out. The container stays held until its conditions are met.
        TimedOut = "TimedOut",
        /// The container was created although its hold gate was closed.
        Violated = "Violated",
    }
}

impl State {
    /// Returns true if the container has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Completed | State::Failed)
    }

    /// Returns true if the container's program has not started in this incarnation.
    pub fn is_before_start(self) -> bool {
        matches!(self, State::Waiting | State::TimedOut)
    }

    /// Returns true if the container was started after its conditions were met. The container may have ended since.
    pub fn has_started(self) -> bool {
        !self.is_before_start() && self != State::Violated
    }
}

words! {
    /// Stage of the pod. Value of `sandbox.podgate.io/stage`.
    #[derive(Default)]
    Stage {
        /// Some ordered containers have not started yet.
        #[default]
        Starting = "starting",
        /// Every ordered container has started in this sandbox and epoch.
        Started = "started",
        /// The pod has a `deletionTimestamp`.
        Terminating = "terminating",
    }
}

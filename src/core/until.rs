//! `CONTAINER[=STATE]`: a condition that a gate waits for.

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
    /// The condition holds.
    Met,
    /// The condition does not hold yet.
    NotYet,
    /// The condition can't hold any more, because the container has ended and the kubelet will not restart it.
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
        let over = state.has_ended() && snapshot.has_ended_for_good(&self.container);
        if over { ConditionStatus::Never } else { ConditionStatus::NotYet }
    }
}

impl FromStr for WaitCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, want) = text.split_once('=').map_or((text, None), |(name, want)| (name, Some(want)));
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is not a container name; write CONTAINER or CONTAINER=STATE"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::snapshot::REASON_ENDED;

    fn db(state: Option<State>, stuck: bool) -> Snapshot {
        let states = state.map(|state| ("db", state));
        Snapshot {
            stuck: stuck.then(|| ("db".to_owned(), REASON_ENDED.to_owned())).into_iter().collect(),
            ..Snapshot::new("0-0-0".parse().unwrap(), "e", states.as_slice())
        }
    }

    #[test]
    fn conditions_survive_a_round_trip() {
        for want in WantedState::ALL {
            let until = WaitCondition { container: "db".to_owned(), want };
            assert_eq!(until.to_string().parse(), Ok(until));
        }
        assert_eq!("db".parse(), Ok(WaitCondition { container: "db".to_owned(), want: WantedState::Ready }));
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        for bad in ["", "=Ready", "DB", "a/b", "db=ready", "db=", "db=Failed"] {
            assert!(bad.parse::<WaitCondition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn states_meet_the_expected_conditions() {
        use State::*;
        for (want, met) in [
            ("db=Started", &[Started, Ready, NotReady, Completed, Failed][..]),
            ("db=Ready", &[Ready]),
            ("db=Completed", &[Completed]),
            ("db=Exited", &[Completed, Failed]),
        ] {
            let until: WaitCondition = want.parse().unwrap();
            for state in State::ALL {
                let is_met = until.status(&db(Some(state), false)) == ConditionStatus::Met;
                assert_eq!(is_met, met.contains(&state), "{want} {state}");
            }
            assert_eq!(until.status(&db(None, false)), ConditionStatus::NotYet);
        }
    }

    #[test]
    fn container_ended_for_good_is_never_ready() {
        let ready: WaitCondition = "db".parse().unwrap();
        assert_eq!(ready.status(&db(Some(State::Failed), false)), ConditionStatus::NotYet);
        assert_eq!(ready.status(&db(Some(State::Failed), true)), ConditionStatus::Never);
        let completed: WaitCondition = "db=Completed".parse().unwrap();
        assert_eq!(completed.status(&db(Some(State::Failed), true)), ConditionStatus::Never);
        assert_eq!(completed.status(&db(Some(State::Completed), true)), ConditionStatus::Met);
    }
}

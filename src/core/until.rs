//! `CONTAINER[=STATE]`: what a gate waits for.

use crate::core::names;
use crate::core::snapshot::Snapshot;
use crate::core::state::State;
use crate::core::words::words;
use std::fmt;
use std::str::FromStr;

words! {
    /// The state that is waited for.
    #[derive(Default)]
    Want {
        /// Its process has been started, whatever became of it.
        Started = "Started",
        /// Its probes have passed.
        #[default]
        Ready = "Ready",
        /// It has exited with 0.
        Completed = "Completed",
        /// It has exited, with any code.
        Exited = "Exited",
    }
}

/// One condition of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Until {
    /// The container waited for.
    pub container: String,
    /// The state waited for.
    pub want: Want,
}

/// Where a condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds.
    Met,
    /// It may still come to hold.
    NotYet,
    /// It can't come to hold any more without a new start of the container, which the kubelet will not give it.
    Never,
}

impl Until {
    /// Where this condition stands, by what `snapshot` says.
    pub fn judge(&self, snapshot: &Snapshot) -> Standing {
        let Some(state) = snapshot.states.get(&self.container).copied() else { return Standing::NotYet };
        let met = match self.want {
            Want::Started => state != State::Waiting,
            Want::Ready => state == State::Ready,
            Want::Completed => state == State::Completed,
            Want::Exited => state.has_ended(),
        };
        if met {
            return Standing::Met;
        }
        let over = state.has_ended() && snapshot.ended_for_good(&self.container);
        if over { Standing::Never } else { Standing::NotYet }
    }
}

/// The text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUntil {
    /// The part before `=` is no container name.
    #[error("{0:?} is no container name; write CONTAINER or CONTAINER=STATE")]
    Name(String),
    /// The part after `=` is no state that can be waited for.
    #[error("{0:?} is no state to wait for; it is one of Started, Ready, Completed, Exited")]
    Want(String),
}

impl FromStr for Until {
    type Err = BadUntil;

    fn from_str(text: &str) -> Result<Self, BadUntil> {
        let (name, want) = text.split_once('=').map_or((text, None), |(name, want)| (name, Some(want)));
        if !names::is_container_name(name) {
            return Err(BadUntil::Name(name.to_owned()));
        }
        let want = match want {
            None => Want::default(),
            Some(text) => text.parse().map_err(|_| BadUntil::Want(text.to_owned()))?,
        };
        Ok(Until { container: name.to_owned(), want })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.container, self.want)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::snapshot::ENDED;

    fn db(state: Option<State>, stuck: bool) -> Snapshot {
        let states = state.map(|state| ("db", state));
        Snapshot {
            stuck: stuck.then(|| ("db".to_owned(), ENDED.to_owned())).into_iter().collect(),
            ..Snapshot::new("0-0-0".parse().unwrap(), "e", states.as_slice())
        }
    }

    #[test]
    fn every_condition_reads_back() {
        for want in Want::ALL {
            let until = Until { container: "db".to_owned(), want };
            assert_eq!(until.to_string().parse(), Ok(until));
        }
        assert_eq!("db".parse(), Ok(Until { container: "db".to_owned(), want: Want::Ready }));
    }

    #[test]
    fn garbage_is_refused_with_what_is_wrong() {
        for bad in ["", "=Ready", "DB", "a/b", "db=ready", "db=", "db=Failed"] {
            assert!(bad.parse::<Until>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_state_meets_what_it_should() {
        use State::*;
        for (want, met) in [
            ("db=Started", &[Started, Ready, NotReady, Completed, Failed][..]),
            ("db=Ready", &[Ready]),
            ("db=Completed", &[Completed]),
            ("db=Exited", &[Completed, Failed]),
        ] {
            let until: Until = want.parse().unwrap();
            for state in State::ALL {
                let is_met = until.judge(&db(Some(state), false)) == Standing::Met;
                assert_eq!(is_met, met.contains(&state), "{want} {state}");
            }
            assert_eq!(until.judge(&db(None, false)), Standing::NotYet);
        }
    }

    #[test]
    fn what_ended_for_good_is_never_ready() {
        let ready: Until = "db".parse().unwrap();
        assert_eq!(ready.judge(&db(Some(State::Failed), false)), Standing::NotYet);
        assert_eq!(ready.judge(&db(Some(State::Failed), true)), Standing::Never);
        let completed: Until = "db=Completed".parse().unwrap();
        assert_eq!(completed.judge(&db(Some(State::Failed), true)), Standing::Never);
        assert_eq!(completed.judge(&db(Some(State::Completed), true)), Standing::Met);
    }
}

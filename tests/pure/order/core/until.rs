//! Tests of `podgate::core::until`.

use podgate::core::snapshot::{REASON_ENDED_FOR_GOOD, Snapshot};
use podgate::core::state::State;
use podgate::core::until::*;

fn db(state: Option<State>, stuck: bool) -> Snapshot {
    let states = state.map(|state| ("db", state));
    Snapshot {
        stuck: stuck.then(|| ("db".to_owned(), REASON_ENDED_FOR_GOOD.to_owned())).into_iter().collect(),
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
            let is_met = until.is_met(&db(Some(state), false));
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

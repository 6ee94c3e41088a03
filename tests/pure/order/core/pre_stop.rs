//! Tests of `core::pre_stop`, which decides how long a preStop hook keeps its container running.

use podgate::core::pre_stop::{Decision, POD_STOP_DETECTION_TIMEOUT, decide, is_pod_stopping};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, Source, SourceError};
use podgate::core::state::{Stage, State};
use std::time::Duration;

/// Decides for a hook of `db` that waits for the end of `api`.
fn decide_at(waited: Duration, pod_stops: bool, change: impl FnOnce(&mut Snapshot)) -> Decision {
    let mut snapshot = Snapshot::new("0-0-0".parse().unwrap(), "e", &[("db", State::Ready), ("api", State::Ready)]);
    snapshot.stage = Stage::Started;
    change(&mut snapshot);
    let view = PodView::Snapshot(snapshot, Source::Board);
    let until = ["api=Exited".parse().unwrap()];
    decide(&view, &until, pod_stops || is_pod_stopping(&view, &until), waited)
}

#[test]
fn hook_waits_only_if_it_learns_in_time_that_the_pod_stops() {
    let wait = Decision::Wait(vec!["api=Exited (now Ready)".to_owned()]);
    let (early, late) = (POD_STOP_DETECTION_TIMEOUT - Duration::from_millis(1), POD_STOP_DETECTION_TIMEOUT);
    assert_eq!(decide_at(early, false, |_| {}), Decision::Undecided);
    let only_this = Decision::Release("only this container stops, so the hook does not wait");
    assert_eq!(decide_at(late, false, |_| {}), only_this);
    for waited in [early, late] {
        assert_eq!(decide_at(waited, false, |s| s.stage = Stage::Terminating), wait);
        assert_eq!(decide_at(waited, false, |s| s.stopping = ["api".to_owned()].into()), wait);
        assert_eq!(decide_at(waited, true, |_| {}), wait, "an earlier snapshot has shown that the pod stops");
    }
    // The stop of the hook's own container does not prove that the pod stops.
    assert_eq!(decide_at(early, false, |s| s.stopping = ["db".to_owned()].into()), Decision::Undecided);
}

#[test]
fn hook_does_not_wait_for_what_is_gone() {
    for state in [State::Failed, State::Completed, State::Waiting] {
        let gone = decide_at(Duration::ZERO, true, |s| _ = s.states.insert("api".to_owned(), state));
        assert_eq!(gone, Decision::Release("nothing is left to wait for"), "{state}");
    }
    let unknown = PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: None };
    let until = ["api=Exited".parse().unwrap()];
    assert!(!is_pod_stopping(&unknown, &until));
    assert_eq!(decide(&unknown, &until, false, Duration::ZERO), Decision::Undecided);
}

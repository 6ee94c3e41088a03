//! Writes down when each container came to what. It rides on what is published anyway: no time is a reason to publish.

use crate::model::track::ContainerTrack;
use podgate::core::report::Report;
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub(crate) struct MilestoneRecorder {
    times: Times,
    /// Each container's state as last seen.
    states: BTreeMap<String, State>,
    /// Each container's state as an earlier controller left it, until this one has come to a state other than Waiting.
    resumed_states: BTreeMap<String, State>,
}

impl MilestoneRecorder {
    /// Goes on where an earlier controller of this sandbox has left off.
    pub(crate) fn resume(times: Times, states: BTreeMap<String, State>) -> MilestoneRecorder {
        MilestoneRecorder { times, states: BTreeMap::new(), resumed_states: states }
    }

    pub(crate) fn record<'a>(&mut self, tracks: impl IntoIterator<Item = &'a ContainerTrack>, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let Ok(now) = u64::try_from(now) else { return };
        for track in tracks {
            let name = track.spec.name.as_str();
            let mut came = |what, is: bool| {
                if is {
                    self.times.record(name, what, now);
                }
            };
            came(Milestone::GateWaiting, track.is_gate_waiting());
            came(Milestone::GateOpened, track.report.as_ref().is_some_and(Report::has_gate_opened));
            // What an operator says of it did not happen to it.
            let seen = track.override_state.is_none();
            came(Milestone::Started, seen && track.state != State::Waiting);
            came(Milestone::Ready, seen && track.state == State::Ready);
            came(Milestone::Ended, seen && track.state.has_ended());
            let before = self.states.insert(name.to_owned(), track.state).unwrap_or(State::Waiting);
            if before != track.state && self.resumed_states.remove(name) != Some(track.state) {
                self.times.record(name, Milestone::StateChanged, now);
            }
        }
    }

    /// The annotation; `None` while there is nothing to say.
    pub(crate) fn annotation_value(&self) -> Option<String> {
        (!self.times.is_empty()).then(|| self.times.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podgate::core::container::Container;
    use std::time::Duration;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn track(state: State) -> ContainerTrack {
        let mut track = ContainerTrack::new(Container { name: "db".to_owned(), ..Container::default() });
        track.state = state;
        track
    }

    #[test]
    fn each_state_has_its_time() {
        let mut keeper = MilestoneRecorder::default();
        keeper.record(&[track(State::Waiting)], at(1));
        assert_eq!(keeper.annotation_value(), None);
        for (state, ms, says) in [
            (State::Started, 10, "10,db=started+0;since+0"),
            (State::Started, 15, "10,db=started+0;since+0"),
            (State::Ready, 20, "10,db=started+0;ready+10;since+10"),
            (State::NotReady, 30, "10,db=started+0;ready+10;since+20"),
            (State::Ready, 40, "10,db=started+0;ready+10;since+30"),
            (State::Failed, 50, "10,db=started+0;ready+10;ended+40;since+40"),
        ] {
            keeper.record(&[track(state)], at(ms));
            assert_eq!(keeper.annotation_value().as_deref(), Some(says), "{state}");
        }
    }

    #[test]
    fn what_an_operator_says_did_not_happen() {
        let mut keeper = MilestoneRecorder::default();
        let mut forced = track(State::Ready);
        forced.override_state = Some(State::Ready);
        keeper.record(&[forced], at(10));
        assert_eq!(keeper.annotation_value().as_deref(), Some("10,db=since+0"));
    }

    #[test]
    fn a_new_controller_goes_on_with_what_it_finds() {
        let times = Times::parse("10,db=started+0;ready+10;since+10");
        let left = BTreeMap::from([("db".to_owned(), State::Ready)]);
        let mut keeper = MilestoneRecorder::resume(times, left);
        keeper.record(&[track(State::Waiting)], at(100));
        keeper.record(&[track(State::Ready)], at(110));
        assert_eq!(keeper.annotation_value().as_deref(), Some("10,db=started+0;ready+10;since+10"));
        keeper.record(&[track(State::NotReady)], at(120));
        keeper.record(&[track(State::Ready)], at(130));
        assert_eq!(keeper.annotation_value().as_deref(), Some("10,db=started+0;ready+10;since+120"));
    }
}

//! Records the time at which each container reached each milestone. The sidecar publishes the times together with other
//! changes, never alone.

use crate::model::track::ContainerTrack;
use podgate::core::container::Mode;
use podgate::core::report::Report;
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub(crate) struct MilestoneRecorder {
    times: Times,
    states: BTreeMap<String, State>,
    /// States from an earlier epoch. A container's first state change in this epoch removes the container's entry.
    resumed_states: BTreeMap<String, State>,
}

impl MilestoneRecorder {
    /// Continues the record of an earlier epoch in the same sandbox. `times` is the value of the annotation with the
    /// recorded times. In a new sandbox, `times` and `states` are empty.
    pub(crate) fn resume(times: &str, states: BTreeMap<String, State>) -> MilestoneRecorder {
        MilestoneRecorder { times: Times::parse(times), states: BTreeMap::new(), resumed_states: states }
    }

    pub(crate) fn record<'a>(&mut self, tracks: impl IntoIterator<Item = &'a ContainerTrack>, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let Ok(now) = u64::try_from(now) else { return };
        for track in tracks {
            let name = track.spec.name.as_str();
            let mut reach = |milestone, is_reached: bool| {
                if is_reached {
                    self.times.record_first(name, milestone, now);
                }
            };
            let is_held = track.spec.mode == Mode::Hold && track.is_gate_closed();
            let is_released = track.hold.as_ref().is_some_and(|gate| gate.state.is_open());
            reach(Milestone::GateWaiting, is_held || track.is_gate_waiting());
            reach(Milestone::GateOpened, is_released || track.report().is_some_and(Report::has_gate_opened));
            // A state that an override sets is not a milestone that the container has reached.
            let is_observed = track.override_state.is_none();
            reach(Milestone::Started, is_observed && !track.state.is_before_start());
            reach(Milestone::Ready, is_observed && track.state == State::Ready);
            reach(Milestone::Ended, is_observed && track.state.has_ended());
            let before = self.states.insert(name.to_owned(), track.state).unwrap_or(State::Waiting);
            if before != track.state && self.resumed_states.remove(name) != Some(track.state) {
                self.times.record_state_change(name, now);
            }
        }
    }

    /// Returns the value of the annotation with the times; `None` while no time is recorded.
    pub(crate) fn annotation_value(&self) -> Option<String> {
        (!self.times.is_empty()).then(|| self.times.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::model::hold_gate::{HoldGate, HoldState};
    use podgate::core::container::Container;
    use std::time::Duration;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn track(state: State) -> ContainerTrack {
        let mut track = ContainerTrack::new(Container { name: "db".to_owned(), ..Container::default() }, false);
        track.state = state;
        track
    }

    #[test]
    fn each_state_change_gets_a_time() {
        let mut recorder = MilestoneRecorder::default();
        recorder.record(&[track(State::Waiting)], at(1));
        assert_eq!(recorder.annotation_value(), None);
        for (state, ms, expected) in [
            (State::Started, 10, "10,db=started+0;since+0"),
            (State::Started, 15, "10,db=started+0;since+0"),
            (State::Ready, 20, "10,db=started+0;ready+10;since+10"),
            (State::NotReady, 30, "10,db=started+0;ready+10;since+20"),
            (State::Ready, 40, "10,db=started+0;ready+10;since+30"),
            (State::Failed, 50, "10,db=started+0;ready+10;ended+40;since+40"),
        ] {
            recorder.record(&[track(state)], at(ms));
            assert_eq!(recorder.annotation_value().as_deref(), Some(expected), "{state}");
        }
    }

    #[test]
    fn gate_of_a_held_container_has_times() {
        let mut recorder = MilestoneRecorder::default();
        let mut held = track(State::Waiting);
        held.spec.mode = Mode::Hold;
        for (open, ms, expected) in [
            (false, 10, "10,db=gate+0"),
            (true, 30, "10,db=gate+0;opened+20"),
            // Only the first opening counts.
            (false, 40, "10,db=gate+0;opened+20"),
            (true, 50, "10,db=gate+0;opened+20"),
        ] {
            let mut gate = HoldGate::new(now(), at(ms), false);
            if open {
                gate.record_state(HoldState::Open(now()), now(), at(ms));
            }
            held.hold = Some(gate);
            recorder.record([&held], at(ms));
            assert_eq!(recorder.annotation_value().as_deref(), Some(expected), "{ms}");
        }
    }

    #[test]
    fn override_records_only_the_state_change() {
        let mut recorder = MilestoneRecorder::default();
        let mut forced = track(State::Ready);
        forced.override_state = Some(State::Ready);
        recorder.record(&[forced], at(10));
        assert_eq!(recorder.annotation_value().as_deref(), Some("10,db=since+0"));
    }

    #[test]
    fn restarted_sidecar_continues_the_recorded_times() {
        let previous_states = BTreeMap::from([("db".to_owned(), State::Ready)]);
        let mut recorder = MilestoneRecorder::resume("10,db=started+0;ready+10;since+10", previous_states);
        recorder.record(&[track(State::Waiting)], at(100));
        recorder.record(&[track(State::Ready)], at(110));
        assert_eq!(recorder.annotation_value().as_deref(), Some("10,db=started+0;ready+10;since+10"));
        recorder.record(&[track(State::NotReady)], at(120));
        recorder.record(&[track(State::Ready)], at(130));
        assert_eq!(recorder.annotation_value().as_deref(), Some("10,db=started+0;ready+10;since+120"));
    }
}

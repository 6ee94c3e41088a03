//! Writes down when each container came to what. It rides on what is published anyway: no time is a reason to publish.

use crate::judge::track::Track;
use podgate::core::report::Report;
use podgate::core::state::State;
use podgate::core::times::{Came, Times};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub(crate) struct Timekeeper {
    times: Times,
    /// Each container's state as last seen.
    states: BTreeMap<String, State>,
    /// Each container's state as an earlier controller left it, until this one has come to a state other than Waiting.
    left: BTreeMap<String, State>,
}

impl Timekeeper {
    /// Goes on where an earlier controller of this sandbox has left off.
    pub(crate) fn resume(times: Times, states: BTreeMap<String, State>) -> Timekeeper {
        Timekeeper { times, states: BTreeMap::new(), left: states }
    }

    pub(crate) fn note<'a>(&mut self, tracks: impl IntoIterator<Item = &'a Track>, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let Ok(now) = u64::try_from(now) else { return };
        for track in tracks {
            let name = track.declared.name.as_str();
            let mut came = |what, is: bool| {
                if is {
                    self.times.note(name, what, now);
                }
            };
            came(Came::Gate, track.gate_waits());
            came(Came::Opened, track.report.as_ref().is_some_and(Report::has_opened));
            // What an operator says of it did not happen to it.
            let seen = track.forced.is_none();
            came(Came::Started, seen && track.state != State::Waiting);
            came(Came::Ready, seen && track.state == State::Ready);
            came(Came::Ended, seen && track.state.has_ended());
            let before = self.states.insert(name.to_owned(), track.state).unwrap_or(State::Waiting);
            if before != track.state && self.left.remove(name) != Some(track.state) {
                self.times.note(name, Came::Since, now);
            }
        }
    }

    /// The annotation; `None` while there is nothing to say.
    pub(crate) fn text(&self) -> Option<String> {
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

    fn track(state: State) -> Track {
        let mut track = Track::new(Container { name: "db".to_owned(), ..Container::default() });
        track.state = state;
        track
    }

    #[test]
    fn each_state_has_its_time() {
        let mut keeper = Timekeeper::default();
        keeper.note(&[track(State::Waiting)], at(1));
        assert_eq!(keeper.text(), None);
        for (state, ms, says) in [
            (State::Started, 10, "10,db=started+0;since+0"),
            (State::Started, 15, "10,db=started+0;since+0"),
            (State::Ready, 20, "10,db=started+0;ready+10;since+10"),
            (State::NotReady, 30, "10,db=started+0;ready+10;since+20"),
            (State::Ready, 40, "10,db=started+0;ready+10;since+30"),
            (State::Failed, 50, "10,db=started+0;ready+10;ended+40;since+40"),
        ] {
            keeper.note(&[track(state)], at(ms));
            assert_eq!(keeper.text().as_deref(), Some(says), "{state}");
        }
    }

    #[test]
    fn what_an_operator_says_did_not_happen() {
        let mut keeper = Timekeeper::default();
        let mut forced = track(State::Ready);
        forced.forced = Some(State::Ready);
        keeper.note(&[forced], at(10));
        assert_eq!(keeper.text().as_deref(), Some("10,db=since+0"));
    }

    #[test]
    fn a_new_controller_goes_on_with_what_it_finds() {
        let times = Times::read("10,db=started+0;ready+10;since+10");
        let left = BTreeMap::from([("db".to_owned(), State::Ready)]);
        let mut keeper = Timekeeper::resume(times, left);
        keeper.note(&[track(State::Waiting)], at(100));
        keeper.note(&[track(State::Ready)], at(110));
        assert_eq!(keeper.text().as_deref(), Some("10,db=started+0;ready+10;since+10"));
        keeper.note(&[track(State::NotReady)], at(120));
        keeper.note(&[track(State::Ready)], at(130));
        assert_eq!(keeper.text().as_deref(), Some("10,db=started+0;ready+10;since+120"));
    }
}

//! What must be true when a gate opens, and in the end.

use super::*;

impl World {
    /// Checks that each condition of a gate that opens holds, as far as the sidecar could know.
    pub(super) fn check_opening(&self, at: usize) {
        let actor = &self.actors[at];
        for until in &actor.spec.until {
            let other = self.actors.iter().find(|other| other.spec.name == until.container).expect("a container");
            let is_unseen = other.changes.1 < other.changes.0;
            if until.want == WantedState::Ready && other.is_probed() {
                let (began, run) = other.success.expect("no probe of the dependency has passed");
                let since = actor.met_since.expect("the conditions are not met");
                assert!(began >= since, "{until} was not observed again after all conditions were met");
                assert!(run == other.run || is_unseen, "{until} was observed in an earlier incarnation");
            } else if until.want == WantedState::Ready && other.spec.readiness_probe.is_some() {
                assert!(other.was_healthy || is_unseen, "{until}: the exec probe has never passed");
            } else {
                let holds = other.possible.contains(&until.want) || other.truths().contains(&until.want);
                assert!(holds, "{} opened, but {until} does not hold: {other:?}", actor.spec.name);
            }
        }
    }

    /// Lets all containers become healthy, and delivers all evidence. All gates must then open.
    pub(super) fn settle(&mut self) {
        for _ in 0..6 * self.actors.len() {
            for at in 0..self.actors.len() {
                self.start(at);
                self.observe(at, false);
                self.decide_gate(at, true);
                self.be_healthy(at, true);
                if self.actors[at].is_job && self.actors[at].process == Process::Program {
                    self.end(at, 0);
                }
                self.observe(at, false);
                for _ in 0..2 {
                    self.begin_attempt(at);
                    self.end_attempt(at);
                }
            }
            self.sync();
            self.deliver_all();
            self.advance(Duration::from_secs(3));
        }
        self.advance(Duration::from_secs(10));
        for actor in &self.actors {
            let is_done = actor.process == if actor.is_job { Process::Ended(0) } else { Process::Program };
            let board = self.pod.published.as_ref();
            assert!(is_done, "{} never runs: {actor:#?}\n{:#?}\n{board:#?}", actor.spec.name, self.pod);
            let state = self.pod.track(&actor.spec.name).expect("a track").state;
            let expected = if actor.is_job { State::Completed } else { State::Ready };
            let knows = self.has_api || actor.has_agent() || actor.is_probed();
            assert!(state == expected || !knows, "{actor:#?} is {state}: {:#?}", self.pod);
        }
    }
}

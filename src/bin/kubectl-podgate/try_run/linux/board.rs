//! Reads the states that the sidecar publishes on the board.

use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use podgate::core::{annotations, names};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct BoardReader {
    /// Id of the epoch in which the sidecar wrote the board.
    pub(super) epoch: String,
    last_content: Vec<u8>,
    /// Last state of each container, with its time in milliseconds since 1970.
    states: BTreeMap<String, (State, i64)>,
}

impl BoardReader {
    /// Returns the container states that have changed since the last call, each with its time in ms since 1970.
    /// `now` replaces a time that the board does not have.
    pub(super) fn changes(&mut self, board: &Path, now: i64) -> Vec<(String, State, i64)> {
        let content = std::fs::read(board.join(names::ANNOTATIONS_FILE)).unwrap_or_default();
        if content == self.last_content {
            return Vec::new();
        }
        self.last_content = content;
        let Ok(annotations) = annotations::read(&self.last_content, |_| true) else { return Vec::new() };
        let Ok(snapshot) = Snapshot::from_annotations(&annotations) else { return Vec::new() };
        let times = Times::parse(annotations.get(names::MILESTONE_TIMES_KEY).map_or("", String::as_str));
        self.epoch = snapshot.epoch;
        let mut changes = Vec::new();
        for (name, state) in snapshot.states {
            let since = times.get(&name, Milestone::StateChanged).and_then(|at| i64::try_from(at).ok());
            let at = since.unwrap_or(now);
            // A container may restart and become Ready between two reads of the board, so compare the times too.
            let is_known = |(known, since): (State, i64)| known == state && (since == at || state != State::Ready);
            if !self.states.insert(name.clone(), (state, at)).is_some_and(is_known) {
                changes.push((name, state, at));
            }
        }
        changes
    }
}

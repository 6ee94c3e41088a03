//! Reads the states that the sidecar publishes on the board.

use podgate::core::annotations;
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::State;
use podgate::core::times::{Milestone, Times};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A container's new state, and the time of the change in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StateChange {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) at: i64,
}

#[derive(Debug)]
pub(super) struct BoardReader {
    file: PathBuf,
    last_content: Vec<u8>,
    last_changes: BTreeMap<String, (State, i64)>,
}

impl BoardReader {
    pub(super) fn new(board: &std::path::Path) -> BoardReader {
        let file = board.join(names::ANNOTATIONS_FILE);
        BoardReader { file, last_content: Vec::new(), last_changes: BTreeMap::new() }
    }

    /// Returns the states that have changed since the last call. `now` replaces a time that the board does not have.
    pub(super) fn changes(&mut self, now: i64) -> Vec<StateChange> {
        let content = std::fs::read(&self.file).unwrap_or_default();
        if content == self.last_content {
            return Vec::new();
        }
        let read = annotations::read(&content, |_| true);
        self.last_content = content;
        let Ok(annotations) = read else { return Vec::new() };
        let Ok(snapshot) = Snapshot::from_annotations(&annotations) else { return Vec::new() };
        let times = Times::parse(annotations.get(names::SANDBOX_TIMES).map_or("", String::as_str));
        let mut changes = Vec::new();
        for (name, state) in snapshot.states {
            let since = times.get(&name, Milestone::StateChanged).and_then(|at| i64::try_from(at).ok());
            let at = since.unwrap_or(now);
            let last = self.last_changes.get(&name);
            if last.is_none_or(|(before, since)| *before != state || state == State::Ready && *since < at) {
                self.last_changes.insert(name.clone(), (state, at));
                changes.push(StateChange { name, state, at });
            }
        }
        changes
    }
}

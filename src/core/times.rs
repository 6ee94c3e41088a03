//! Times of each container's milestones, as observed by the sidecar: the annotation `sandbox.podgate.io/times`. The
//! times are only for display. No gate depends on a time.
//!
//! `1763733605123,db=started+0;ready+1577,api=gate+40;opened+1580`: the first number is the base time in milliseconds
//! since 1970. The other numbers are offsets from the base time, in milliseconds.

use crate::core::annotations::VALUE_MAX;
use crate::core::words::words;
use std::collections::BTreeMap;
use std::fmt;

words! {
    /// Milestone of a container. Only a milestone's first time in a sandbox is recorded, except for `StateChanged`.
    #[derive(PartialOrd, Ord)]
    Milestone {
        /// The entrypoint gate has reported that it waits, or the kubelet holds the container.
        GateWaiting = "gate",
        /// The gate has opened.
        GateOpened = "opened",
        /// The container's own process has started.
        Started = "started",
        /// The container is Ready.
        Ready = "ready",
        /// The container has ended.
        Ended = "ended",
        /// The container has entered its current state. Each new time replaces the recorded one.
        StateChanged = "since",
    }
}

/// Times of each container's milestones, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times(BTreeMap<String, BTreeMap<Milestone, u64>>);

impl Times {
    /// Returns the time at which `container` reached `milestone`.
    pub fn get(&self, container: &str, milestone: Milestone) -> Option<u64> {
        self.0.get(container)?.get(&milestone).copied()
    }

    /// Records that `container` reached `milestone` at `ms`, unless a time is already recorded.
    pub fn record_first(&mut self, container: &str, milestone: Milestone, ms: u64) {
        self.0.entry(container.to_owned()).or_default().entry(milestone).or_insert(ms);
    }

    /// Records that `container` entered its current state at `ms`. Replaces an earlier time.
    pub fn record_state_change(&mut self, container: &str, ms: u64) {
        self.0.entry(container.to_owned()).or_default().insert(Milestone::StateChanged, ms);
    }

    /// Returns true if no time is recorded.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// Parses the output of [`Display`](fmt::Display). Skips invalid parts.
    pub fn parse(text: &str) -> Times {
        let mut items = text.split(',');
        let mut times = Times::default();
        let Some(zero) = items.next().and_then(|zero| zero.parse::<u64>().ok()) else { return times };
        for (name, list) in items.filter_map(|item| item.split_once('=')) {
            for (word, after) in list.split(';').filter_map(|one| one.split_once('+')) {
                match (word.parse(), after.parse::<u64>().ok().and_then(|after| zero.checked_add(after))) {
                    (Ok(Milestone::StateChanged), Some(at)) => times.record_state_change(name, at),
                    (Ok(what), Some(at)) => times.record_first(name, what, at),
                    _ => {}
                }
            }
        }
        times
    }
}

impl fmt::Display for Times {
    /// Writes at most [`VALUE_MAX`] bytes. Omits containers that do not fit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zero = self.0.values().flat_map(BTreeMap::values).min().copied().unwrap_or_default();
        let mut text = zero.to_string();
        for (name, of) in self.0.iter().filter(|(_, of)| !of.is_empty()) {
            let list: Vec<String> = of.iter().map(|(what, at)| format!("{what}+{}", at - zero)).collect();
            let item = format!(",{name}={}", list.join(";"));
            if text.len() + item.len() <= VALUE_MAX {
                text.push_str(&item);
            }
        }
        f.write_str(&text)
    }
}

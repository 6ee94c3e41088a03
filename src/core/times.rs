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
    /// Milestone of a container. Only its first time in a sandbox is recorded, except for `StateChanged`.
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
    /// Returns the time at which `container` reached `what`.
    pub fn get(&self, container: &str, what: Milestone) -> Option<u64> {
        self.0.get(container)?.get(&what).copied()
    }

    /// Records that `container` reached `what` at `ms`. Keeps an earlier time, except for [`Milestone::StateChanged`].
    pub fn record(&mut self, container: &str, what: Milestone, ms: u64) {
        let of = self.0.entry(container.to_owned()).or_default();
        if what == Milestone::StateChanged {
            of.insert(what, ms);
        } else {
            of.entry(what).or_insert(ms);
        }
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
                let at = after.parse::<u64>().ok().and_then(|after| zero.checked_add(after));
                if let (Ok(what), Some(at)) = (word.parse(), at) {
                    times.record(name, what, at);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Times {
        let mut times = Times::default();
        for (name, what, ms) in [
            ("db", Milestone::Started, 1_763_733_605_123),
            ("db", Milestone::Ready, 1_763_733_606_700),
            ("api", Milestone::GateWaiting, 1_763_733_605_200),
            ("api", Milestone::GateOpened, 1_763_733_606_703),
            ("api", Milestone::StateChanged, 1_763_733_606_710),
        ] {
            times.record(name, what, ms);
        }
        times
    }

    #[test]
    fn times_survive_a_round_trip() {
        let text = sample().to_string();
        assert_eq!(text, "1763733605123,api=gate+77;opened+1580;since+1587,db=started+0;ready+1577");
        assert_eq!(Times::parse(&text), sample());
        assert!(Times::parse(&Times::default().to_string()).is_empty());
    }

    #[test]
    fn first_time_counts_except_for_state_changes() {
        let mut times = sample();
        times.record("db", Milestone::Started, 9);
        times.record("api", Milestone::StateChanged, 1_763_733_609_000);
        assert_eq!(times.get("db", Milestone::Started), Some(1_763_733_605_123));
        assert_eq!(times.get("api", Milestone::StateChanged), Some(1_763_733_609_000));
    }

    #[test]
    fn invalid_parts_are_skipped() {
        for (text, left) in [
            ("", 0),
            ("x,db=started+1", 0),
            ("-1,db=started+1", 0),
            ("5,db=started+x;ready+2,api,=,web=never+3;ready", 1),
            ("18446744073709551615,db=started+1;ready+0", 1),
        ] {
            let times = Times::parse(text);
            assert_eq!(times.0.values().map(BTreeMap::len).sum::<usize>(), left, "{text}");
        }
    }

    #[test]
    fn text_stays_within_the_size_limit() {
        let mut times = sample();
        for number in 0..200 {
            for what in Milestone::ALL {
                times.record(&format!("{}-{number}", "x".repeat(50)), what, 1_763_733_605_123 + 86_400_000);
            }
        }
        let text = times.to_string();
        assert!(text.len() <= VALUE_MAX && text.len() > VALUE_MAX - 200, "{}", text.len());
        assert_eq!(Times::parse(&text).get("db", Milestone::Ready), times.get("db", Milestone::Ready));
    }
}

//! The summary at the end of the soak test.

use super::faults::{Shared, lock};
use super::growth::Growth;
use crate::scene::print_line;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Numbers of Pods, starts, stops and storms.
    pub(super) counts: BTreeMap<String, usize>,
    /// For each kind of time: the longest time in milliseconds, its Pod, and the number of measurements.
    longest: BTreeMap<&'static str, (f64, String, usize)>,
    pub(super) violations: Vec<String>,
}

impl Summary {
    pub(super) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn add_time(&mut self, what: &'static str, ms: f64, pod: &str) {
        let longest = self.longest.entry(what).or_default();
        longest.2 += 1;
        if ms > longest.0 {
            (longest.0, longest.1) = (ms, pod.to_owned());
        }
    }

    /// Prints the summary. Returns the number of violations, including violations by growth.
    pub(super) fn print(&self, growth: &Growth, shared: &Shared) -> usize {
        let mut faults: BTreeMap<String, usize> = BTreeMap::new();
        for strike in lock(&shared.strikes).iter() {
            *faults.entry(strike.kind.to_owned()).or_default() += 1;
        }
        let list = |all: &BTreeMap<String, usize>| {
            all.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
        };
        let (processes, grown) = growth.report();
        let mut lines = vec![list(&self.counts), format!("faults: {}", list(&faults))];
        let longest = self.longest.iter();
        lines.extend(
            longest.map(|(what, (ms, pod, of))| format!("longest {what}: {:.2} s ({pod}, of {of})", ms / 1000.0)),
        );
        lines.extend(processes);
        let violations = grown.iter().map(|line| format!("has grown: {line}")).chain(self.violations.iter().cloned());
        lines.extend(violations.map(|text| format!("VIOLATION: {text}")));
        print_line(&format!("soak: summary\n  {}", lines.join("\n  ")));
        self.violations.len() + grown.len()
    }
}

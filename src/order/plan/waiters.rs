//! Finds the containers that wait for each container of a plan.

use super::types::ContainerPlan;
use crate::core::until::WantedState;
use std::collections::{BTreeMap, BTreeSet};

/// Waiting containers and their wanted states, by the container that they wait for.
pub(crate) struct Waiters<'a>(pub(crate) BTreeMap<&'a str, Vec<(&'a str, WantedState)>>);

impl<'a> Waiters<'a> {
    pub(crate) fn of(containers: &'a [ContainerPlan]) -> Waiters<'a> {
        let mut after: BTreeMap<&str, Vec<(&str, WantedState)>> = BTreeMap::new();
        for planned in containers {
            for need in &planned.after {
                after.entry(&need.container).or_default().push((&planned.name, need.want));
            }
        }
        Waiters(after)
    }

    /// Returns the containers that wait until `name` reaches a state that `counts` accepts. Includes all containers
    /// that wait for one of these, directly or indirectly.
    pub(crate) fn transitive_waiters(&self, name: &str, counts: impl Fn(WantedState) -> bool) -> BTreeSet<&'a str> {
        let waiters = |name: &str| self.0.get(name).map_or(&[][..], Vec::as_slice);
        let mut left: Vec<&str> =
            waiters(name).iter().filter(|(_, want)| counts(*want)).map(|(waiter, _)| *waiter).collect();
        let mut found = BTreeSet::new();
        while let Some(next) = left.pop() {
            if found.insert(next) {
                left.extend(waiters(next).iter().map(|(waiter, _)| *waiter));
            }
        }
        found
    }
}

//! The order of the list: the kubelet starts containers in it, one after another.

use super::Planned;
use super::graph::Graph;
use crate::core::container::Mode;
use std::collections::{BTreeMap, BTreeSet};

/// Puts those that hooks hold back behind the hooks, and gates that wait behind all hooks; whatever may stay where it is, stays.
/// `hooked` are the containers that hooks hold back.
pub(super) fn place(planned: Vec<Planned>, graph: &Graph, hooked: &BTreeSet<&str>) -> Vec<Planned> {
    let waits = |planned: &Planned| planned.mode == Mode::Entrypoint && !planned.until.is_empty();
    let mut hooks_left = planned.iter().filter(|planned| planned.mode == Mode::PostStart).count();
    let mut placed: Vec<Planned> = Vec::new();
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut left: BTreeMap<usize, Planned> = planned.into_iter().enumerate().collect();
    while !left.is_empty() {
        let may_go = |planned: &Planned| {
            let held_back = hooked.contains(planned.name.as_str());
            let is_free =
                !held_back || graph.after(&planned.name).iter().all(|need| done.contains(&need.until.container));
            is_free && !(waits(planned) && hooks_left > 0)
        };
        // With no cycle in the graph there always is one.
        let found = left.iter().find(|(_, planned)| may_go(planned)).map(|(at, _)| *at);
        let Some(next) = found.or_else(|| left.keys().next().copied()).and_then(|at| left.remove(&at)) else { break };
        hooks_left -= usize::from(next.mode == Mode::PostStart);
        done.insert(next.name.clone());
        placed.push(next);
    }
    placed
}

//! Order of the container list, in which the kubelet starts containers one after another.

use super::graph::Graph;
use super::types::ContainerPlan;
use crate::core::container::Mode;
use std::collections::{BTreeMap, BTreeSet};

/// Moves each container in `hooked` behind the hooks that hold the container back, and waiting gates behind all hooks.
/// Otherwise keeps the order of the list.
pub(super) fn arrange(planned: Vec<ContainerPlan>, graph: &Graph, hooked: &BTreeSet<&str>) -> Vec<ContainerPlan> {
    let waits = |planned: &ContainerPlan| planned.gate().is_some() && planned.waits_in_gate();
    let mut hooks_left = planned.iter().filter(|planned| planned.mode() == Mode::PostStart).count();
    let numbers: BTreeMap<String, usize> =
        planned.iter().enumerate().map(|(number, planned)| (planned.name.clone(), number)).collect();
    // `needs`: number of unmet needs per container. `free`: containers to place now. `gates`: gates to place after the
    // last hook.
    let (mut needs, mut free, mut gates) = (vec![0; planned.len()], BTreeSet::new(), BTreeSet::new());
    for (number, planned) in planned.iter().enumerate() {
        if hooked.contains(planned.name.as_str()) {
            needs[number] = graph.needs(&planned.name).len();
        }
        if needs[number] == 0 {
            if waits(planned) {
                gates.insert(number)
            } else {
                free.insert(number)
            };
        }
    }
    let mut left: Vec<Option<ContainerPlan>> = planned.into_iter().map(Some).collect();
    let mut placed = Vec::with_capacity(left.len());
    loop {
        if hooks_left == 0 {
            free.append(&mut gates);
        }
        // The graph has no cycles, so every container becomes free.
        let Some(next) = free.pop_first().and_then(|number| left[number].take()) else { break };
        hooks_left -= usize::from(next.mode() == Mode::PostStart);
        for waiter in graph.waiters(&next.name).filter(|waiter| hooked.contains(waiter)) {
            let number = numbers[waiter];
            needs[number] -= 1;
            if needs[number] == 0 {
                free.insert(number);
            }
        }
        placed.push(next);
    }
    placed.extend(left.into_iter().flatten());
    placed
}

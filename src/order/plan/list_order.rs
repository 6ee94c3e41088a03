//! Arranges the container list. The kubelet starts the containers one after another, in list order.

use super::graph::Graph;
use super::types::ContainerPlan;
use crate::core::container::Mode;
use std::collections::BTreeSet;

/// Moves each container in `hooked` behind the containers that it waits for, and each container with a waiting gate
/// behind all containers with hooks. Otherwise keeps the order of the list.
pub(super) fn arrange(mut left: Vec<ContainerPlan>, graph: &Graph, hooked: &BTreeSet<&str>) -> Vec<ContainerPlan> {
    let (mut placed, mut names) = (Vec::with_capacity(left.len()), BTreeSet::new());
    while !left.is_empty() {
        let has_hook = left.iter().any(|planned| planned.mode() == Mode::PostStart);
        let is_free = |planned: &ContainerPlan| match hooked.contains(planned.name.as_str()) {
            true => graph.needs(&planned.name).iter().all(|need| names.contains(&need.until.container)),
            false => !has_hook || planned.gate().is_none() || !planned.waits_in_gate(),
        };
        // At least one container is free, because the graph has no cycles.
        let next = left.remove(left.iter().position(is_free).unwrap_or(0));
        names.insert(next.name.clone());
        placed.push(next);
    }
    placed
}

//! Graph of the waits between containers. Combines edges, rejects contradictions and cycles, and arranges containers.

use super::types::ContainerPlan;
use crate::core::container::Mode;
use crate::core::graph::{describe_wait_cycle, find_cycle};
use crate::core::until::WantedState;
use crate::order::declare::{Edge, annotation_place, keys};
use crate::order::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

const MAX_CYCLES: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Needs of each waiting container, one edge per container that it waits for.
    needs: BTreeMap<String, Vec<Edge>>,
    /// Waiting containers, by the container that they wait for. The number is an index in the waiter's list of `needs`.
    waiters: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Graph {
    /// Builds the graph. Reports up to [`MAX_CYCLES`] cycles and breaks each cycle by removing the closing edge.
    pub(super) fn new(edges: &[Edge], findings: &mut Vec<Finding>) -> Graph {
        let mut graph = Graph::default();
        let mut numbers = BTreeMap::new();
        for edge in edges {
            graph.add_edge(edge, &mut numbers, findings);
        }
        for _ in 0..MAX_CYCLES {
            let Some(cycle) = graph.find_cycle() else { break };
            findings.push(cycle_finding(&cycle, &graph.break_cycle(&cycle)));
        }
        for (waiter, needs) in &graph.needs {
            for (number, need) in needs.iter().enumerate() {
                graph.waiters.entry(need.until.container.clone()).or_default().insert(waiter.clone(), number);
            }
        }
        graph
    }

    /// Adds an edge. `numbers` maps each pair of waiter and target to the index of the need.
    fn add_edge<'a>(
        &mut self,
        edge: &'a Edge,
        numbers: &mut BTreeMap<(&'a str, &'a str), usize>,
        findings: &mut Vec<Finding>,
    ) {
        let needs = self.needs.entry(edge.waiter.clone()).or_default();
        let number = *numbers.entry((&edge.waiter, &edge.until.container)).or_insert(needs.len());
        let Some(need) = needs.get_mut(number) else { return needs.push(edge.clone()) };
        if need.is_direct != edge.is_direct {
            // A direct condition replaces the condition that follows from the whole order.
            if edge.is_direct {
                *need = edge.clone();
            }
            return;
        }
        match combine_states(need.until.want, edge.until.want) {
            Some(want) => need.until.want = want,
            None => {
                let what = format!(
                    "{} waits for {} here and for {} in {}, and these conditions can never be met at the same time",
                    edge.waiter,
                    edge.until,
                    need.until,
                    if need.at == edge.at { "the same annotation".to_owned() } else { need.at.to_string() },
                );
                let finding = Finding::error("condition-never-met", edge.at.clone(), what).span(edge.span.clone());
                findings.push(finding.fix("keep one of the two conditions"));
            }
        }
    }

    pub(super) fn needs(&self, name: &str) -> &[Edge] {
        self.needs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the needs of `name` without those that follow from earlier steps of the order.
    pub(super) fn needs_without_earlier_steps(&self, name: &str) -> impl Iterator<Item = &Edge> {
        self.needs(name).iter().filter(|need| need.is_direct)
    }

    pub(super) fn waiters_with_needs(&self, name: &str) -> impl Iterator<Item = (&str, &Edge)> {
        let waiters = self.waiters.get(name).into_iter().flatten();
        waiters.filter_map(|(waiter, number)| Some((waiter.as_str(), self.needs(waiter).get(*number)?)))
    }

    /// Returns the containers of a cycle: each waits for the next one, and the last waits for the first.
    fn find_cycle<'a>(&'a self) -> Option<Vec<String>> {
        let target = |need: &'a Edge| need.until.container.as_str();
        let edges = |name: &'a String| (name.as_str(), self.needs_without_earlier_steps(name).map(target).collect());
        Some(find_cycle(&self.needs.keys().map(edges).collect())?.into_iter().map(str::to_owned).collect())
    }

    /// Removes and returns one edge of `cycle`. Prefers edges of `after`, because an order alone has no cycle.
    fn break_cycle(&mut self, cycle: &[String]) -> Edge {
        let next = |at: usize| &cycle[(at + 1) % cycle.len()];
        let edge = |at: usize| self.needs(&cycle[at]).iter().find(|need| need.until.container == *next(at));
        let is_after = |need: &&Edge| need.at != annotation_place(keys::ORDER);
        let closing = (0..cycle.len()).filter_map(edge).find(is_after).or_else(|| edge(0));
        let Some(closing) = closing.cloned() else { unreachable!("a cycle has edges") };
        let needs = self.needs.entry(closing.waiter.clone()).or_default();
        needs.retain(|need| need.until.container != closing.until.container);
        closing
    }
}

/// Reports the whole cycle, starting with the container whose annotation closes it.
fn cycle_finding(cycle: &[String], closing: &Edge) -> Finding {
    let from = cycle.iter().position(|name| *name == closing.waiter).unwrap_or(0);
    let names: Vec<&str> = cycle[from..].iter().chain(&cycle[..from]).map(String::as_str).collect();
    let what = match names.len() {
        1 => format!("{} waits for itself", closing.waiter),
        _ => format!("containers wait for each other: {}", describe_wait_cycle(&names)),
    };
    let fix = format!("do not let {} wait for {}", closing.waiter, closing.until.container);
    Finding::error("cycle", closing.at.clone(), what).fix(fix).span(closing.span.clone())
}

/// Returns the state that implies both `a` and `b`; `None` if `a` and `b` contradict each other.
fn combine_states(a: WantedState, b: WantedState) -> Option<WantedState> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (WantedState::Started, other) | (other, WantedState::Started) => Some(other),
        (WantedState::Completed, WantedState::Exited) | (WantedState::Exited, WantedState::Completed) => {
            Some(WantedState::Completed)
        }
        _ => None,
    }
}

/// Arranges the container list, because the kubelet starts the containers one after another, in list order. Moves each
/// container in `hooked` behind the containers that it waits for, and each container with a closed gate behind
/// all containers with hooks. Otherwise keeps the order of the list.
pub(super) fn arrange_for_hooks(plans: &mut Vec<ContainerPlan>, graph: &Graph, hooked: &BTreeSet<&str>) {
    let (mut left, mut names) = (std::mem::take(plans), BTreeSet::new());
    while !left.is_empty() {
        let has_hook = left.iter().any(|planned| planned.mode() == Mode::PostStart);
        let is_free = |planned: &ContainerPlan| match hooked.contains(planned.name.as_str()) {
            true => graph.needs(&planned.name).iter().all(|need| names.contains(&need.until.container)),
            false => !has_hook || planned.entrypoint_gate().is_none() || !planned.has_closed_gate(),
        };
        // At least one container is free, because the graph has no cycles.
        let next = left.remove(left.iter().position(is_free).unwrap_or(0));
        names.insert(next.name.clone());
        plans.push(next);
    }
}

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

    /// Returns the containers that wait until `name` reaches a state that `first_wait` accepts. Includes all containers
    /// that wait for any state of one of these, directly or indirectly.
    pub(crate) fn transitive_waiters(&self, name: &str, first_wait: impl Fn(WantedState) -> bool) -> BTreeSet<&'a str> {
        let waiters = |name: &str| self.0.get(name).map_or(&[][..], Vec::as_slice);
        let mut left: Vec<&str> =
            waiters(name).iter().filter(|(_, want)| first_wait(*want)).map(|(waiter, _)| *waiter).collect();
        let mut found = BTreeSet::new();
        while let Some(next) = left.pop() {
            if found.insert(next) {
                left.extend(waiters(next).iter().map(|(waiter, _)| *waiter));
            }
        }
        found
    }
}

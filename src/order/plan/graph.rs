//! Who waits for whom: edges that add up, conditions that exclude each other, cycles.

use crate::core::until::WaitCondition;
use crate::order::declare::{Edge, annotation_place, combine_states, keys};
use crate::order::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// How many cycles are shown.
const MAX_CYCLES: usize = 5;

/// For each container that waits, what it waits for: each container once.
#[derive(Debug, Default)]
pub(super) struct Graph {
    needs: BTreeMap<String, Vec<Need>>,
    /// For each container, who waits for it, and the number of that need.
    waiters: BTreeMap<String, BTreeMap<String, usize>>,
}

/// One thing that a container waits for.
#[derive(Debug, Clone)]
pub(super) struct Need {
    /// For whom, and for which state.
    pub(super) until: WaitCondition,
    /// Where it was said, the last time.
    pub(super) edge: Edge,
}

impl Graph {
    /// Adds up `edges`. Of each cycle the edge that closes it is left out, up to the fifth: then there is enough to fix.
    pub(super) fn new(edges: &[Edge], findings: &mut Vec<Finding>) -> Graph {
        let mut graph = Graph::default();
        let mut numbers = BTreeMap::new();
        for edge in edges {
            graph.add_edge(edge, &mut numbers, findings);
        }
        for _ in 0..MAX_CYCLES {
            let Some(cycle) = graph.find_cycle() else { break };
            let closing = graph.break_cycle(&cycle);
            findings.push(cycle_finding(&cycle, &closing));
        }
        for (waiter, needs) in &graph.needs {
            for (number, need) in needs.iter().enumerate() {
                graph.waiters.entry(need.until.container.clone()).or_default().insert(waiter.clone(), number);
            }
        }
        graph
    }

    /// `numbers` are those of the needs so far, by who waits and for whom.
    fn add_edge<'a>(
        &mut self,
        edge: &'a Edge,
        numbers: &mut BTreeMap<(&'a str, &'a str), usize>,
        findings: &mut Vec<Finding>,
    ) {
        let needs = self.needs.entry(edge.waiter.clone()).or_default();
        let number = *numbers.entry((&edge.waiter, &edge.until.container)).or_insert(needs.len());
        let Some(need) = needs.get_mut(number) else {
            return needs.push(Need { until: edge.until.clone(), edge: edge.clone() });
        };
        match combine_states(need.until.want, edge.until.want) {
            Some(want) => need.until.want = want,
            None => {
                let what = format!(
                    "{} waits for {} here and for {} in {}, which never hold at the same moment",
                    edge.waiter,
                    edge.until,
                    need.until,
                    if need.edge.at == edge.at { "the same annotation".to_owned() } else { need.edge.at.to_string() },
                );
                let finding = Finding::error("can-never-hold", edge.at.clone(), what).span(edge.span.clone());
                findings.push(finding.fix("ask for one of the two"));
            }
        }
    }

    /// What `name` waits for.
    pub(super) fn needs(&self, name: &str) -> &[Need] {
        self.needs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Who waits for `name`, by their names.
    pub(super) fn waiters(&self, name: &str) -> impl Iterator<Item = &str> {
        self.waiters.get(name).into_iter().flatten().map(|(waiter, _)| waiter.as_str())
    }

    /// The conditions that others have on `name`.
    pub(super) fn waiters_with_needs(&self, name: &str) -> impl Iterator<Item = (&str, &Need)> {
        let waiters = self.waiters.get(name).into_iter().flatten();
        waiters.filter_map(|(waiter, number)| Some((waiter.as_str(), self.needs(waiter).get(*number)?)))
    }

    /// Whether `name` waits for somebody, or somebody for it.
    pub(super) fn has_edges(&self, name: &str) -> bool {
        !self.needs(name).is_empty() || self.waiters(name).next().is_some()
    }

    /// All that wait for `name`, and that wait for those, and so on.
    pub(super) fn descendants(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut left: Vec<&str> = self.waiters(name).collect();
        while let Some(next) = left.pop() {
            if found.insert(next) {
                left.extend(self.waiters(next));
            }
        }
        found
    }

    /// A cycle, each container followed by one that it waits for.
    fn find_cycle(&self) -> Option<Vec<String>> {
        // For each container that has been come to its place on the way; `None` once no cycle can lead through it.
        let mut places = BTreeMap::new();
        for start in self.needs.keys() {
            if places.contains_key(start.as_str()) {
                continue;
            }
            // The way from the start, each with the number of its needs that have been looked at.
            let mut way: Vec<(&str, usize)> = vec![(start, 0)];
            while let Some((at, looked)) = way.last_mut() {
                let (name, number) = (*at, *looked);
                *looked += 1;
                let depth = way.len() - 1;
                places.insert(name, Some(depth));
                let Some(need) = self.needs(name).get(number) else {
                    places.insert(name, None);
                    way.pop();
                    continue;
                };
                let next = need.until.container.as_str();
                match places.get(next) {
                    Some(Some(from)) => return Some(way[*from..].iter().map(|(seen, _)| (*seen).to_owned()).collect()),
                    Some(None) => {}
                    None => way.push((next, 0)),
                }
            }
        }
        None
    }

    /// Takes one edge of `cycle` away: one of an `needs` annotation, if there is one, since an order alone has no cycle.
    fn break_cycle(&mut self, cycle: &[String]) -> Edge {
        let next = |at: usize| &cycle[(at + 1) % cycle.len()];
        let edge = |at: usize| self.needs(&cycle[at]).iter().find(|need| need.until.container == *next(at));
        let is_after = |need: &&Need| need.edge.at != annotation_place(keys::ORDER);
        let closing = (0..cycle.len()).filter_map(edge).find(is_after).or_else(|| edge(0));
        let Some(closing) = closing.map(|need| Edge { until: need.until.clone(), ..need.edge.clone() }) else {
            unreachable!("a cycle has edges")
        };
        let needs = self.needs.entry(closing.waiter.clone()).or_default();
        needs.retain(|need| need.until.container != closing.until.container);
        closing
    }
}

/// The whole cycle, from the container whose annotation closes it.
fn cycle_finding(cycle: &[String], closing: &Edge) -> Finding {
    let from = cycle.iter().position(|name| *name == closing.waiter).unwrap_or(0);
    let mut names: Vec<&str> = cycle[from..].iter().chain(&cycle[..from]).map(String::as_str).collect();
    names.push(&closing.waiter);
    let what = match names.len() {
        2 => format!("{} waits for itself", closing.waiter),
        _ => format!("containers wait for each other: {}", names.join(" -> ")),
    };
    let fix = format!("let {} not wait for {}", closing.waiter, closing.until.container);
    Finding::error("cycle", closing.at.clone(), what).fix(fix).span(closing.span.clone())
}

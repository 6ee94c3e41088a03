//! Who waits for whom: edges that add up, conditions that exclude each other, cycles.

use crate::core::until::Until;
use crate::order::declare::{Edge, annotation, both, keys};
use crate::order::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// How many cycles are shown.
const MOST_CYCLES: usize = 5;

/// For each container that waits, what it waits for: each container once.
#[derive(Debug, Default)]
pub(super) struct Graph {
    after: BTreeMap<String, Vec<Need>>,
    /// For each container, who waits for it, and the number of that need.
    before: BTreeMap<String, BTreeMap<String, usize>>,
}

/// One thing that a container waits for.
#[derive(Debug, Clone)]
pub(super) struct Need {
    /// For whom, and for which state.
    pub(super) until: Until,
    /// Where it was said, the last time.
    pub(super) edge: Edge,
}

impl Graph {
    /// Adds up `edges`. Of each cycle the edge that closes it is left out, up to the fifth: then there is enough to mend.
    pub(super) fn new(edges: &[Edge], findings: &mut Vec<Finding>) -> Graph {
        let mut graph = Graph::default();
        let mut numbers = BTreeMap::new();
        for edge in edges {
            graph.add(edge, &mut numbers, findings);
        }
        for _ in 0..MOST_CYCLES {
            let Some(cycle) = graph.cycle() else { break };
            let closing = graph.cut(&cycle);
            findings.push(tell(&cycle, &closing));
        }
        for (waiter, needs) in &graph.after {
            for (number, need) in needs.iter().enumerate() {
                graph.before.entry(need.until.container.clone()).or_default().insert(waiter.clone(), number);
            }
        }
        graph
    }

    /// `numbers` are those of the needs so far, by who waits and for whom.
    fn add<'a>(
        &mut self,
        edge: &'a Edge,
        numbers: &mut BTreeMap<(&'a str, &'a str), usize>,
        findings: &mut Vec<Finding>,
    ) {
        let needs = self.after.entry(edge.waiter.clone()).or_default();
        let number = *numbers.entry((&edge.waiter, &edge.needs.container)).or_insert(needs.len());
        let Some(need) = needs.get_mut(number) else {
            return needs.push(Need { until: edge.needs.clone(), edge: edge.clone() });
        };
        match both(need.until.want, edge.needs.want) {
            Some(want) => need.until.want = want,
            None => {
                let what = format!(
                    "{} waits for {} here and for {} in {}, which never hold at the same moment",
                    edge.waiter,
                    edge.needs,
                    need.until,
                    if need.edge.at == edge.at { "the same annotation".to_owned() } else { need.edge.at.to_string() },
                );
                let finding = Finding::error("can-never-hold", edge.at.clone(), what).word(edge.word.clone());
                findings.push(finding.mend("ask for one of the two"));
            }
        }
    }

    /// What `name` waits for.
    pub(super) fn after(&self, name: &str) -> &[Need] {
        self.after.get(name).map_or(&[], Vec::as_slice)
    }

    /// Who waits for `name`, by their names.
    pub(super) fn before(&self, name: &str) -> impl Iterator<Item = &str> {
        self.before.get(name).into_iter().flatten().map(|(waiter, _)| waiter.as_str())
    }

    /// The conditions that others have on `name`.
    pub(super) fn wanted(&self, name: &str) -> impl Iterator<Item = (&str, &Need)> {
        let waiters = self.before.get(name).into_iter().flatten();
        waiters.filter_map(|(waiter, number)| Some((waiter.as_str(), self.after(waiter).get(*number)?)))
    }

    /// Whether `name` waits for somebody, or somebody for it.
    pub(super) fn holds(&self, name: &str) -> bool {
        !self.after(name).is_empty() || self.before(name).next().is_some()
    }

    /// All that wait for `name`, and that wait for those, and so on.
    pub(super) fn descendants(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut left: Vec<&str> = self.before(name).collect();
        while let Some(next) = left.pop() {
            if found.insert(next) {
                left.extend(self.before(next));
            }
        }
        found
    }

    /// A cycle, each container followed by one that it waits for.
    fn cycle(&self) -> Option<Vec<String>> {
        // For each container that has been come to its place on the way; `None` once no cycle can lead through it.
        let mut places = BTreeMap::new();
        for start in self.after.keys() {
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
                let Some(need) = self.after(name).get(number) else {
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

    /// Takes one edge of `cycle` away: one of an `after` annotation, if there is one, since an order alone has no cycle.
    fn cut(&mut self, cycle: &[String]) -> Edge {
        let next = |at: usize| &cycle[(at + 1) % cycle.len()];
        let edge = |at: usize| self.after(&cycle[at]).iter().find(|need| need.until.container == *next(at));
        let is_after = |need: &&Need| need.edge.at != annotation(keys::ORDER);
        let closing = (0..cycle.len()).filter_map(edge).find(is_after).or_else(|| edge(0));
        let Some(closing) = closing.map(|need| Edge { needs: need.until.clone(), ..need.edge.clone() }) else {
            unreachable!("a cycle has edges")
        };
        let needs = self.after.entry(closing.waiter.clone()).or_default();
        needs.retain(|need| need.until.container != closing.needs.container);
        closing
    }
}

/// The whole cycle, from the container whose annotation closes it.
fn tell(cycle: &[String], closing: &Edge) -> Finding {
    let from = cycle.iter().position(|name| *name == closing.waiter).unwrap_or(0);
    let mut names: Vec<&str> = cycle[from..].iter().chain(&cycle[..from]).map(String::as_str).collect();
    names.push(&closing.waiter);
    let what = match names.len() {
        2 => format!("{} waits for itself", closing.waiter),
        _ => format!("containers wait for each other: {}", names.join(" -> ")),
    };
    let mend = format!("let {} not wait for {}", closing.waiter, closing.needs.container);
    Finding::error("cycle", closing.at.clone(), what).mend(mend).word(closing.word.clone())
}

//! Cycles and levels of a graph of names.

use std::collections::BTreeMap;

/// Describes a cycle of [`find_cycle`]: each name waits for the next one, and the last for the first.
pub fn describe_wait_cycle(cycle: &[&str]) -> String {
    let pairs = cycle.iter().zip(cycle.iter().cycle().skip(1));
    pairs.map(|(name, next)| format!("{name} waits for {next}")).collect::<Vec<_>>().join(", ")
}

/// Returns a cycle, if any. Each name in the result has an edge to the next one, and the last has an edge to the first.
pub fn find_cycle<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    // Position of each visited name on the path; `None` if the name cannot be part of a cycle.
    let mut places: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for start in edges.keys() {
        if places.contains_key(start) {
            continue;
        }
        // The path from `start`, each name with the index of its next edge.
        let mut path = vec![(*start, 0)];
        while let Some((name, next_edge)) = path.last_mut() {
            let (name, next) = (*name, edges.get(name).and_then(|to| to.get(*next_edge)).copied());
            *next_edge += 1;
            places.insert(name, next.map(|_| path.len() - 1));
            let Some(next) = next else {
                path.pop();
                continue;
            };
            match places.get(next) {
                Some(Some(from)) => return Some(path[*from..].iter().map(|(name, _)| *name).collect()),
                Some(None) => {}
                None => path.push((next, 0)),
            }
        }
    }
    None
}

/// Returns the lowest possible level of each name in `first`, where `first` contains each name's minimum level. A
/// name's level must be higher than the levels of all names that `before` lists for it. `before` has no cycles.
pub fn levels<'a>(first: &BTreeMap<&'a str, u32>, before: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeMap<&'a str, u32> {
    fn level<'a>(
        name: &'a str,
        first: &BTreeMap<&'a str, u32>,
        before: &BTreeMap<&'a str, Vec<&'a str>>,
        levels: &mut BTreeMap<&'a str, u32>,
    ) -> u32 {
        if let Some(known) = levels.get(name) {
            return *known;
        }
        let last = before.get(name).into_iter().flatten().map(|other| level(other, first, before, levels) + 1).max();
        let found = first.get(name).copied().unwrap_or(0).max(last.unwrap_or(0));
        levels.insert(name, found);
        found
    }
    let mut levels = BTreeMap::new();
    for name in first.keys() {
        level(name, first, before, &mut levels);
    }
    levels
}

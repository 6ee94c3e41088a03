//! Who waits by a gate in front of its own command, and who is held back by hooks in those before it.
//!
//! The kubelet starts a Pod's containers one after another, and a hook holds back all that comes after it. So the two mix in one
//! way alone: if a container must be held back by a hook, all that it waits for, and all that those wait for, have hooks too.

use super::graph::Graph;
use super::planned::ImageCommand;
use crate::core::until::Want;
use crate::order::declare::spec::Own;
use crate::order::declare::{Declared, Wish, annotation, annotation_of, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Why a container is held back by hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// An annotation says so.
    Asked(Place),
    /// What it runs is not known, so nothing can be put in front of it.
    Unknown,
    /// This one is held back by hooks, and waits for it.
    For(String),
}

/// Why only a gate will do for a container.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    reason: String,
    at: Place,
    word: Option<Range<usize>>,
}

/// What is known for the decision.
pub(super) struct Modes<'a> {
    pub(super) graph: &'a Graph,
    pub(super) declared: &'a Declared,
    /// What each container runs, where that is known.
    pub(super) commands: &'a BTreeMap<String, Vec<String>>,
    /// Containers that only a gate will do for, with the reason.
    pub(super) gates: BTreeMap<String, Gate>,
}

impl Modes<'_> {
    /// What is asked for `name`, and where.
    fn wish(&self, name: &str) -> (Wish, Place) {
        match self.declared.modes.get(name) {
            // `auto` for one outweighs what is said for all.
            Some(own) => (*own, annotation_of(keys::MODE_PREFIX, name)),
            None => (self.declared.mode, annotation(keys::MODE)),
        }
    }

    /// Those of `involved` that are held back by hooks, each with the reason; all others have gates.
    pub(super) fn decide(&self, involved: &[&Own<'_>], findings: &mut Vec<Finding>) -> BTreeMap<String, Why> {
        let mut hooked: BTreeMap<String, Why> = BTreeMap::new();
        for own in involved {
            let (wish, at) = self.wish(own.name);
            let is_known = self.commands.contains_key(own.name);
            let why = match wish {
                Wish::PostStart => Why::Asked(at.clone()),
                _ if is_known => continue,
                Wish::Auto => Why::Unknown,
                Wish::Entrypoint => {
                    let what = format!("{} is to be in entrypoint mode, but its command is not known", own.name);
                    findings.push(unknown_command(own, at.clone(), what));
                    continue;
                }
            };
            hooked.insert(own.name.to_owned(), why);
        }
        let mut left: Vec<String> = hooked.keys().cloned().collect();
        while let Some(name) = left.pop() {
            for need in self.graph.after(&name) {
                let before = &need.until.container;
                if !hooked.contains_key(before) {
                    hooked.insert(before.clone(), Why::For(name.clone()));
                    left.push(before.clone());
                }
            }
        }
        for own in involved {
            if let Some(why) = hooked.get(own.name) {
                self.refuse(own, why, &hooked, findings);
            }
        }
        hooked
    }

    /// Whether a container that is to be held back by hooks can't be.
    fn refuse(&self, own: &Own<'_>, why: &Why, hooked: &BTreeMap<String, Why>, findings: &mut Vec<Finding>) {
        let name = own.name;
        let (wish, at) = self.wish(name);
        let asked = || Gate { reason: format!("{name} is in entrypoint mode"), at: at.clone(), word: None };
        let is_asked = wish == Wish::Entrypoint && self.commands.contains_key(name);
        let Some(gate) = self.gates.get(name).cloned().or_else(|| is_asked.then(asked)) else { return };
        let Gate { reason: gate, at: gate_at, word } = gate;
        match why {
            Why::Unknown => {
                let what = format!("{gate}, which takes a gate in front of its command, but that command is not known");
                findings.push(Finding { word, ..unknown_command(own, gate_at, what) });
            }
            Why::Asked(at) => {
                let what = format!("{name} is in post-start mode, but {gate}, which takes a gate");
                let mend = format!("write {}{name}: entrypoint", keys::MODE_PREFIX);
                findings.push(Finding::error("mode-conflict", at.clone(), what).mend(mend));
            }
            // Of one that can't be held back itself enough is said.
            Why::For(_) if self.gates.contains_key(root(name, hooked).0) => {}
            Why::For(_) => {
                let (last, root) = root(name, hooked);
                let (reason, mend) = match root {
                    Why::Asked(_) => {
                        ("is in post-start mode", format!("write {}{last}: entrypoint", keys::MODE_PREFIX))
                    }
                    _ => (
                        "has a command that is not known, so nothing can be put in front of it",
                        format!("{}, or take {last} out of the order", give_command(last)),
                    ),
                };
                let what = format!(
                    "{gate}, but {last}, which comes after {name}, {reason}: {last} can be held back by hooks alone, in all that \
                     come before it, and no container can wait in a gate while a hook runs"
                );
                findings.push(Finding { word, ..Finding::error("mode-conflict", gate_at, what).mend(mend) });
            }
        }
    }

    /// Why, for people; `hooked` are those held back by hooks.
    pub(super) fn because(&self, name: &str, hooked: &BTreeMap<String, Why>) -> String {
        match hooked.get(name) {
            Some(Why::Asked(at)) => format!("asked for by {}", key(at)),
            Some(Why::Unknown) => "its command is not known".to_owned(),
            Some(Why::For(_)) => {
                let (last, root) = root(name, hooked);
                match root {
                    Why::Asked(_) => format!("{last} after it is in post-start mode"),
                    _ => format!("the command of {last} after it is not known"),
                }
            }
            None => match self.wish(name) {
                (Wish::Entrypoint, at) => format!("asked for by {}", key(&at)),
                _ => "its command is known".to_owned(),
            },
        }
    }
}

/// The annotation's key.
fn key(at: &Place) -> String {
    match at.0.last() {
        Some(crate::order::edit::Step::Key(key)) => key.clone(),
        _ => at.to_string(),
    }
}

/// The container for whose sake `name` has a hook, and why that one is held back by hooks.
fn root<'a>(name: &'a str, hooked: &'a BTreeMap<String, Why>) -> (&'a str, &'a Why) {
    let mut at = name;
    loop {
        match hooked.get(at) {
            Some(Why::For(next)) => at = next,
            Some(why) => return (at, why),
            None => return (at, &Why::Unknown),
        }
    }
}

fn give_command(name: &str) -> String {
    format!(
        "give its command: command in spec.containers, or {}{name}: '[\"/usr/bin/program\"]', or look it up with --resolve-images",
        keys::COMMAND_PREFIX
    )
}

fn unknown_command(own: &Own<'_>, at: Place, what: String) -> Finding {
    Finding::error("unknown-command", at, what).mend(give_command(own.name))
}

/// What a container runs, as its `command` would be written (`$(NAME)` expanded by the kubelet, `$$` not): by its spec, by
/// annotation, or by its image.
pub(super) fn command(own: &Own<'_>, declared: &Declared, image: Option<&ImageCommand>) -> Option<Vec<String>> {
    let args = own.strings("args").filter(|args| !args.is_empty());
    if let Some(command) = own.strings("command").filter(|command| !command.is_empty()) {
        return Some(command.into_iter().chain(args.into_iter().flatten()).collect());
    }
    if let Some(said) = declared.commands.get(own.name) {
        return Some(said.iter().cloned().chain(args.into_iter().flatten()).collect());
    }
    let image = image?;
    let literal = |words: &[String]| words.iter().map(|word| unexpanded(word)).collect::<Vec<_>>();
    let words: Vec<String> =
        literal(&image.entrypoint).into_iter().chain(args.unwrap_or_else(|| literal(&image.cmd))).collect();
    (!words.is_empty()).then_some(words)
}

/// A word of an image, which nobody expands, as it is written where the kubelet does.
fn unexpanded(word: &str) -> String {
    if word.contains("$(") || word.contains("$$") { word.replace('$', "$$") } else { word.to_owned() }
}

/// Containers for which only a gate will do.
pub(super) fn gates(graph: &Graph, declared: &Declared, names: &BTreeSet<&str>) -> BTreeMap<String, Gate> {
    let mut gates = BTreeMap::new();
    for name in names {
        for need in graph.after(name).iter().filter(|need| is_end(need.until.want)) {
            let gate = |reason| Gate { reason, at: need.edge.at.clone(), word: Some(need.edge.word.clone()) };
            let waits = gate(format!("{name} waits for {}", need.until));
            gates.entry((*name).to_owned()).or_insert(waits);
            let ends = gate(format!("{name} waits for the end of {}", need.until.container));
            gates.entry(need.until.container.clone()).or_insert(ends);
        }
    }
    for item in &declared.sidecars {
        let name = &item.until.container;
        let reason = format!("{name} is to be ended when the others have");
        let gate = Gate { reason, at: annotation(keys::SIDECARS), word: Some(item.word.clone()) };
        gates.insert(name.clone(), gate);
    }
    gates
}

/// Whether it is an end that is waited for.
pub(super) fn is_end(want: Want) -> bool {
    matches!(want, Want::Completed | Want::Exited)
}

//! From what is declared to a plan.

use super::graph::Graph;
use super::modes::{self, Modes, Why};
use super::planned::{Known, Plan, Planned};
use super::{placing, stopping};
use crate::core::container::{Container, Mode};
use crate::core::containers;
use crate::core::until::{Until, Want};
use crate::order::declare::spec::{Own, Spec};
use crate::order::declare::{self, Declared, annotation, annotation_of, keys};
use crate::order::finding::{Finding, has_errors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Works out what `template` (an object with `metadata` and `spec`, nothing of podgate's injected) declares. Where nothing is
/// declared, that is a plan in which podgate has nothing to do.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn plan(template: &Value, known: &Known) -> Result<Plan, Vec<Finding>> {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let declared = declare::read(template, &spec, &mut findings);
    let graph = Graph::new(&declared.edges, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let build = Build::new(&spec, &declared, &graph, known, &mut findings);
    let containers = build.containers(&mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let list: Vec<Container> = containers.iter().map(as_told).collect();
    if let Err(broken) = containers::check(&list) {
        findings.push(Finding::error("order-broken", annotation(keys::ORDER), broken.to_string()));
        return Err(findings);
    }
    notes(&containers, &graph, &mut findings);
    let (sidecar, publish) = (declared.sidecar, declared.publish);
    Ok(Plan { containers, sidecar, publish, grace: stopping::grace(spec.value), findings })
}

/// As the sidecar is told of it.
fn as_told(planned: &Planned) -> Container {
    let Planned { name, mode, until, .. } = planned.clone();
    Container { name, mode, until, ..Container::default() }
}

struct Build<'a> {
    spec: &'a Spec<'a>,
    declared: &'a Declared,
    graph: &'a Graph,
    commands: BTreeMap<String, Vec<String>>,
    stays: BTreeMap<String, Vec<String>>,
    /// Those whom somebody stays for.
    stayed_for: BTreeSet<String>,
    graces: BTreeMap<String, std::time::Duration>,
    sidecars: BTreeSet<&'a str>,
}

impl<'a> Build<'a> {
    fn new(
        spec: &'a Spec<'a>,
        declared: &'a Declared,
        graph: &'a Graph,
        known: &Known,
        findings: &mut Vec<Finding>,
    ) -> Build<'a> {
        let command = |own: &Own<'_>| {
            modes::command(own, declared, known.images.get(own.name)).map(|words| (own.name.to_owned(), words))
        };
        let stays = stopping::stays(spec, declared, graph, findings);
        let graces = stopping::graces(&stays, stopping::grace(spec.value), findings);
        Build {
            spec,
            declared,
            graph,
            commands: spec.containers.iter().filter_map(command).collect(),
            stayed_for: stays.values().flatten().cloned().collect(),
            stays,
            graces,
            sidecars: declared.sidecars.iter().map(|item| item.until.container.as_str()).collect(),
        }
    }

    /// Whether somebody stays for `name`.
    fn is_stayed_for(&self, name: &str) -> bool {
        self.stayed_for.contains(name)
    }

    fn is_involved(&self, name: &str) -> bool {
        self.graph.holds(name)
            || self.stays.contains_key(name)
            || self.is_stayed_for(name)
            || self.sidecars.contains(name)
            // Whose end the sidecars of a Job are to learn of without delay.
            || (!self.sidecars.is_empty() && self.commands.contains_key(name))
    }

    fn containers(&self, findings: &mut Vec<Finding>) -> Vec<Planned> {
        let involved: Vec<&Own<'_>> = self.spec.containers.iter().filter(|own| self.is_involved(own.name)).collect();
        let names: BTreeSet<&str> = involved.iter().map(|own| own.name).collect();
        let gates = modes::gates(self.graph, self.declared, &names);
        let modes = Modes { graph: self.graph, declared: self.declared, commands: &self.commands, gates };
        let hooked = modes.decide(&involved, findings);
        self.ends(findings);
        self.unused(&names, findings);
        let planned = self.spec.containers.iter().map(|own| self.one(own, &names, &modes, &hooked)).collect();
        placing::place(planned, self.graph, &hooked.keys().map(String::as_str).collect())
    }

    fn one(
        &self,
        own: &Own<'_>,
        involved: &BTreeSet<&str>,
        modes: &Modes<'_>,
        hooked: &BTreeMap<String, Why>,
    ) -> Planned {
        let name = own.name;
        let after: Vec<Until> = self.graph.after(name).iter().map(|need| need.until.clone()).collect();
        let (mode, until) = if !involved.contains(name) {
            (Mode::None, Vec::new())
        } else if !hooked.contains_key(name) {
            (Mode::Entrypoint, after.clone())
        } else if let Some(want) = self.own_state(own, hooked) {
            (Mode::PostStart, vec![Until { container: name.to_owned(), want }])
        } else {
            (Mode::None, Vec::new())
        };
        let others = || self.spec.containers.iter().map(|own| own.name).filter(|other| !self.sidecars.contains(other));
        let stop_after: Vec<String> =
            if self.sidecars.contains(name) { others().map(str::to_owned).collect() } else { Vec::new() };
        Planned {
            name: name.to_owned(),
            index: own.index,
            because: if mode == Mode::None { String::new() } else { modes.because(name, hooked) },
            parent: mode == Mode::Entrypoint && self.needs_parent(own),
            tether: mode == Mode::PostStart && self.is_stayed_for(name),
            mode,
            until,
            after,
            command: self.commands.get(name).cloned(),
            timeout: self.declared.timeouts.get(name).copied().unwrap_or(self.declared.timeout),
            continue_on_timeout: self.declared.continue_on_timeout,
            fail_fast: self.declared.fail_fast,
            stays_for: self.stays.get(name).cloned().unwrap_or_default(),
            is_stayed_for: self.is_stayed_for(name),
            stop_grace: self.graces.get(name).copied().unwrap_or_default(),
            stop_after,
        }
    }

    /// The state of its own that the hook of a container waits for; `None` if it needs none.
    fn own_state(&self, own: &Own<'_>, hooked: &BTreeMap<String, Why>) -> Option<Want> {
        let is_waited_for = self.graph.before(own.name).next().is_some();
        // Gates see for themselves; only what runs inside the container needs the hook for its checks.
        let is_exec = has_exec_probe(own);
        let mut wanted = self.graph.wanted(own.name);
        if wanted.any(|(waiter, need)| need.until.want == Want::Ready && (is_exec || hooked.contains_key(waiter))) {
            return Some(Want::Ready);
        }
        (is_waited_for || self.is_stayed_for(own.name)).then_some(Want::Started)
    }

    fn needs_parent(&self, own: &Own<'_>) -> bool {
        let name = own.name;
        let is_waited_for = self.graph.before(name).next().is_some();
        self.graph.wanted(name).any(|(_, need)| modes::is_end(need.until.want))
            || !self.sidecars.is_empty()
            || is_waited_for && has_exec_probe(own)
    }

    /// Ends that are waited for, and that do not come or do not stay.
    fn ends(&self, findings: &mut Vec<Finding>) {
        for own in &self.spec.containers {
            let wanted: Vec<_> =
                self.graph.wanted(own.name).filter(|(_, need)| modes::is_end(need.until.want)).collect();
            let Some((waiter, need)) = wanted.first() else { continue };
            let (name, at, word) = (own.name, need.edge.at.clone(), need.edge.word.clone());
            if self.sidecars.contains(name) && !self.sidecars.contains(waiter) {
                let what = format!(
                    "{waiter} waits for the end of {name}, which by podgate.io/sidecars is ended when {waiter} has"
                );
                findings.push(
                    Finding::error("can-never-hold", at, what)
                        .mend(format!("take {name} out of one of them"))
                        .word(word),
                );
            } else if own.restart_policy(self.spec.value) == "Always" {
                let what = format!(
                    "{name} is started again whenever it has ended (restartPolicy: Always), for as long as the Pod lives: {} holds \
                     only between two of its runs",
                    need.until
                );
                let finding = Finding::warning("end-does-not-last", at, what).word(word);
                findings.push(finding.mend(format!(
                    "move {name} to spec.initContainers, or give it restartPolicy: OnFailure (of its own: Kubernetes 1.35)"
                )));
            }
        }
        let at = || annotation(keys::SIDECARS);
        let others = || self.spec.containers.iter().filter(|own| !self.sidecars.contains(own.name));
        if !self.sidecars.is_empty() && others().next().is_none() {
            let what = "all containers are sidecars, and nobody is left whose end would end them";
            findings.push(Finding::error("can-never-hold", at(), what).mend("leave out those that do the work"));
        }
        if !self.sidecars.is_empty()
            && let Some(own) = others().find(|own| own.restart_policy(self.spec.value) == "Always")
        {
            let what = format!(
                "the sidecars are to be ended when {} has, but that is always started again (restartPolicy: Always)",
                own.name
            );
            let mend =
                "podgate.io/sidecars is for Pods that run to their end: give the Pod restartPolicy Never or OnFailure";
            findings.push(Finding::error("can-never-hold", at(), what).mend(mend));
        }
    }

    /// Settings of containers that take no part.
    fn unused(&self, involved: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
        let modes = self.declared.modes.keys().map(|name| (name, keys::MODE_PREFIX, "mode"));
        let timeouts = self.declared.timeouts.keys().map(|name| (name, keys::TIMEOUT_PREFIX, "timeout"));
        let commands = self.declared.commands.keys().map(|name| (name, keys::COMMAND_PREFIX, "command"));
        for (name, prefix, what) in modes.chain(timeouts).chain(commands) {
            let at = annotation_of(prefix, name);
            if !involved.contains(name.as_str()) {
                let what = format!("{name} waits for nobody and nobody for it, so its {what} says nothing");
                findings.push(Finding::warning("unused-annotation", at, what).mend("take it out"));
            } else if what == "command"
                && let Some(own) = self.spec.get(name)
                && own.strings("command").is_some_and(|command| !command.is_empty())
            {
                let what = format!("{name} has a command in its spec, and that counts");
                findings.push(Finding::warning("unused-annotation", at, what).mend("take one of the two out"));
            }
        }
    }
}

fn has_exec_probe(own: &Own<'_>) -> bool {
    ["startupProbe", "readinessProbe"].into_iter().filter_map(|field| own.probe(field)).any(|probe| probe.is_exec())
}

/// What the plan does that its reader may not have expected.
fn notes(containers: &[Planned], graph: &Graph, findings: &mut Vec<Finding>) {
    let at = crate::order::edit::Place::root().to("spec").to("containers");
    if !containers.is_sorted_by_key(|planned| planned.index) {
        let names: Vec<&str> = containers.iter().map(|planned| planned.name.as_str()).collect();
        let what = format!(
            "the list of containers is put into another order, which the kubelet goes by: {}",
            names.join(", ")
        );
        findings.push(Finding::note("moved", at.clone(), what));
    }
    for (number, planned) in containers.iter().enumerate() {
        let holds = planned.mode == Mode::PostStart && planned.until.iter().any(|until| until.want != Want::Started);
        if !holds {
            continue;
        }
        let descendants = graph.descendants(&planned.name);
        let later = containers[number + 1..].iter().map(|later| later.name.as_str());
        let unasked: Vec<&str> = later.filter(|later| !descendants.contains(later)).collect();
        if !unasked.is_empty() {
            let what = format!(
                "while the hook of {} waits, the kubelet starts nobody: it holds back {} too, which do not wait for it",
                planned.name,
                unasked.join(", "),
            );
            let mend = "with gates in front of their commands, containers start side by side";
            findings.push(Finding::note("not-side-by-side", at.clone().to(planned.index), what).mend(mend));
        }
    }
}

//! Builds the plan from the declaration.

use super::graph::Graph;
use super::modes::{self, HookReason, ModeResolver};
use super::types::{ContainerPlan, GatePlan, KnownFacts, Plan, PlannedMode};
use super::waiters::Waiters;
use super::{init_containers, list_order, stop_order};
use crate::core::container::{Handler, Probe};
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{
    self, Declaration, Publish, RequestedMode, annotation_place, container_annotation_place, keys,
};
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use crate::order::limits;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Builds the plan for `template`, an object with `metadata` and `spec` without injected parts. If the template
/// declares no order, the plan changes no container.
///
/// # Errors
/// Returns all findings, at least one of them an error.
pub fn plan(template: &Value, known: &KnownFacts) -> Result<Plan, Vec<Finding>> {
    limits::check(template, false)?;
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let mut declared = declare::read_annotations(template, &spec, &mut findings);
    let waiters = declared.edges.iter().map(|edge| edge.waiter.clone()).collect();
    let init = init_containers::resolve(&spec, &mut declared, &mut findings);
    let graph = Graph::new(&declared.edges, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let command = |own: &ContainerRef<'_>| {
        let words = modes::effective_command(own, &declared, known.images.get(own.name))?;
        Some((own.name.to_owned(), words))
    };
    let outlives = stop_order::outlives(&spec, &declared, &graph, &mut findings);
    let planner = Planner {
        spec: &spec,
        declared: &declared,
        graph: &graph,
        commands: spec.containers.iter().filter_map(command).collect(),
        outlived: outlives.values().flatten().cloned().collect(),
        pre_stop_limits: stop_order::pre_stop_limits(&outlives, spec.grace_period(), &mut findings),
        outlives,
        sidecars: declared.sidecars.iter().map(|item| item.until.container.as_str()).collect(),
        waiters,
        known,
    };
    let containers = planner.plan_containers(&mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    add_notes(&containers, &mut findings);
    let grace = spec.grace_period();
    let Declaration { sidecar_placement, sidecar_resources, sidecar_settings, publish, .. } = declared;
    Ok(Plan { containers, init, sidecar_placement, sidecar_resources, sidecar_settings, publish, grace, findings })
}

struct Planner<'a> {
    spec: &'a Spec<'a>,
    declared: &'a Declaration,
    graph: &'a Graph,
    commands: BTreeMap<String, Vec<String>>,
    outlives: BTreeMap<String, Vec<String>>,
    /// Containers that another container must outlive.
    outlived: BTreeSet<String>,
    pre_stop_limits: BTreeMap<String, std::time::Duration>,
    sidecars: BTreeSet<&'a str>,
    /// All containers for which the annotations declare a wait, even if Kubernetes keeps the order.
    waiters: BTreeSet<String>,
    known: &'a KnownFacts,
}

impl Planner<'_> {
    fn is_involved(&self, name: &str) -> bool {
        !self.graph.needs(name).is_empty()
            || self.graph.waiters(name).next().is_some()
            || self.outlives.contains_key(name)
            || self.outlived.contains(name)
            || self.sidecars.contains(name)
            || self.declared.checks.contains_key(name)
            || self.declared.quits.contains_key(name)
            // The sidecars of a Job must detect the exit of every other container without delay.
            || (!self.sidecars.is_empty() && self.commands.contains_key(name))
    }

    fn plan_containers(&self, findings: &mut Vec<Finding>) -> Vec<ContainerPlan> {
        let involved: Vec<&ContainerRef<'_>> =
            self.spec.containers.iter().filter(|own| self.is_involved(own.name)).collect();
        let names: BTreeSet<&str> = involved.iter().map(|own| own.name).collect();
        let gates = modes::required_gates(self.spec, self.graph, self.declared, &names);
        let modes = ModeResolver {
            graph: self.graph,
            declared: self.declared,
            commands: &self.commands,
            required_gates: gates,
            known: self.known,
        };
        let hooked = modes.decide_hooked(&involved, findings);
        self.check_ends(findings);
        let planned: Vec<_> =
            self.spec.containers.iter().map(|own| self.plan_container(own, &names, &modes, &hooked)).collect();
        self.check_unused_settings(&names, &planned, findings);
        list_order::arrange(planned, self.graph, &hooked.keys().map(String::as_str).collect())
    }

    fn plan_container(
        &self,
        own: &ContainerRef<'_>,
        involved: &BTreeSet<&str>,
        modes: &ModeResolver<'_>,
        hooked: &BTreeMap<String, HookReason>,
    ) -> ContainerPlan {
        let name = own.name;
        let after: Vec<WaitCondition> = self.graph.needs(name).iter().map(|need| need.until.clone()).collect();
        let mode = if !involved.contains(name) {
            PlannedMode::None
        } else if hooked.contains_key(name) {
            self.hook_state(own, hooked).map_or(PlannedMode::None, PlannedMode::Hook)
        } else if !modes.is_held(name) {
            PlannedMode::Gate(self.gate(own))
        } else if after.is_empty() {
            PlannedMode::None
        } else {
            PlannedMode::Hold
        };
        let is_other = |other: &&str| !self.sidecars.contains(other) && !self.declared.quits.contains_key(*other);
        let others = || self.spec.containers.iter().map(|own| own.name).filter(is_other);
        let stop_after: Vec<String> =
            if self.sidecars.contains(name) { others().map(str::to_owned).collect() } else { Vec::new() };
        let wrapped_probe = self.wrapped_probe(own, &mode);
        let also = if wrapped_probe.is_some() { "; podgate wraps its readinessProbe" } else { "" };
        ContainerPlan {
            name: name.to_owned(),
            index: own.index,
            mode_reason: match mode {
                PlannedMode::None if !involved.contains(name) && self.waiters.contains(name) => {
                    "Kubernetes keeps its order".to_owned()
                }
                PlannedMode::None if !involved.contains(name) => "it is not part of the order".to_owned(),
                PlannedMode::None if after.is_empty() => format!("it waits for nothing{also}"),
                PlannedMode::None => "the hooks before it hold it back".to_owned(),
                _ => modes.mode_reason(name, hooked) + also,
            },
            wrapped_probe,
            mode,
            after,
            ready: modes::ready_check(self.declared, self.graph, name).cloned(),
            timeout: self.declared.timeout.of(name),
            continue_on_timeout: self.declared.continue_on_timeout.of(name),
            fail_fast: self.declared.fail_fast.of(name),
            outlives: self.outlives.get(name).cloned().unwrap_or_default(),
            is_outlived: self.outlived.contains(name),
            pre_stop_limit: self.pre_stop_limits.get(name).copied().unwrap_or_default(),
            stop_after,
            quit: self.declared.quits.get(name).cloned(),
        }
    }

    /// Returns the container's state that its own postStart hook must wait for; `None` if no hook is needed.
    fn hook_state(&self, own: &ContainerRef<'_>, hooked: &BTreeMap<String, HookReason>) -> Option<WantedState> {
        let is_waited_for = self.graph.waiters(own.name).next().is_some();
        // Gates watch the board themselves. Only exec probes need a hook, to run inside the container.
        let is_exec = self.has_inside_probe(own);
        let mut wanted = self.graph.waiters_with_needs(own.name);
        if wanted
            .any(|(waiter, need)| need.until.want == WantedState::Ready && (is_exec || hooked.contains_key(waiter)))
        {
            return Some(WantedState::Ready);
        }
        (is_waited_for || self.outlived.contains(own.name)).then_some(WantedState::Started)
    }

    fn gate(&self, own: &ContainerRef<'_>) -> GatePlan {
        let restarts = self.declared.restart_with_dependency.of(own.name);
        let providers = self.graph.direct_needs(own.name).filter(|_| restarts);
        let restarts_with: Vec<String> = providers.map(|need| need.until.container.clone()).collect();
        GatePlan {
            checks: self.declared.checks.get(own.name).cloned().unwrap_or_default(),
            command: self.commands.get(own.name).cloned().unwrap_or_default(),
            needs_parent: self.needs_parent(own) || !restarts_with.is_empty(),
            restarts_with,
        }
    }

    fn needs_parent(&self, own: &ContainerRef<'_>) -> bool {
        let name = own.name;
        let is_waited_for = self.graph.waiters(name).next().is_some();
        self.graph.waiters_with_needs(name).any(|(_, need)| need.until.want.is_exit())
            || !self.sidecars.is_empty()
            || is_waited_for && self.has_inside_probe(own)
    }

    /// Returns the exec readinessProbe of a container, if another container waits until this one is Ready. Returns
    /// `None` in modes in which a gate or hook runs the probe's command itself.
    fn wrapped_probe(&self, own: &ContainerRef<'_>, mode: &PlannedMode) -> Option<Probe> {
        let mut wanted = self.graph.waiters_with_needs(own.name);
        let is_wrapped = matches!(mode, PlannedMode::None | PlannedMode::Hold)
            && wanted.any(|(_, need)| need.until.want == WantedState::Ready)
            && modes::ready_check(self.declared, self.graph, own.name).is_none();
        own.probe("readinessProbe")
            .filter(|probe| is_wrapped && matches!(&probe.handler, Handler::Exec(exec) if !exec.command.is_empty()))
    }

    /// Returns true if only the agent inside the container can tell that the container is Ready.
    fn has_inside_probe(&self, own: &ContainerRef<'_>) -> bool {
        let ready = modes::ready_check(self.declared, self.graph, own.name);
        ready.map_or_else(|| own.has_exec_probe(), |check| !check.is_network())
    }

    /// Reports containers that wait for the exit of a container that cannot exit first or that the kubelet restarts.
    fn check_ends(&self, findings: &mut Vec<Finding>) {
        let quits = &self.declared.quits;
        let is_last = |name: &str| self.sidecars.contains(name) || quits.contains_key(name);
        for own in &self.spec.containers {
            let wanted: Vec<_> =
                self.graph.waiters_with_needs(own.name).filter(|(_, need)| need.until.want.is_exit()).collect();
            let Some((waiter, need)) = wanted.first() else { continue };
            let (name, at, word) = (own.name, need.edge.at.clone(), need.edge.span.clone());
            if is_last(name) && !is_last(waiter) || quits.contains_key(name) && !quits.contains_key(*waiter) {
                let what = format!(
                    "{waiter} waits for the exit of {name}, but podgate ends {name} only after {waiter} has exited"
                );
                let fix = format!("remove {name} from one of the two annotations");
                findings.push(Finding::error("condition-never-met", at, what).fix(fix).span(word));
            } else if own.restart_policy(self.spec.value) == "Always" {
                let what = format!(
                    "the kubelet restarts {name} whenever it exits (restartPolicy: Always), so {} is met only between two runs",
                    need.until
                );
                let finding = Finding::warning("exit-not-final", at, what).span(word);
                findings.push(finding.fix(format!(
                    "move {name} to spec.initContainers, or set restartPolicy: OnFailure (for one container: Kubernetes 1.35)"
                )));
            }
        }
        let quit = quits.keys().next().map(|name| container_annotation_place(keys::QUIT_PREFIX, name));
        let listed = (!self.sidecars.is_empty()).then(|| annotation_place(keys::JOB_SIDECARS));
        let Some(at) = listed.or_else(|| quit.clone()) else { return };
        let always = self.spec.containers.iter().find(|own| own.restart_policy(self.spec.value) == "Always");
        let (what, fix) = if self.spec.containers.iter().all(|own| is_last(own.name)) {
            ("every container ends only after the others".to_owned(), "remove those that do the work")
        } else if let Some(ContainerRef { name, .. }) = always {
            let what = format!("the Pod never completes: the kubelet always restarts {name} (restartPolicy: Always)");
            (what, "set restartPolicy to Never or OnFailure; this annotation is for Pods that run to completion")
        } else if let Some(name) = quits.keys().find(|name| self.sidecars.contains(name.as_str())) {
            (format!("{} stops {name} already", keys::JOB_SIDECARS), "remove one of the two")
        } else if quit.is_some() && self.declared.publish == Publish::Board {
            let what =
                format!("with {}: board, the sidecar does not learn when the other containers end", keys::PUBLISH);
            (what, "remove one of the two")
        } else {
            return;
        };
        findings.push(Finding::error("condition-never-met", at, what).fix(fix));
    }

    /// Reports settings that have no effect.
    fn check_unused_settings(&self, involved: &BTreeSet<&str>, planned: &[ContainerPlan], findings: &mut Vec<Finding>) {
        let plan = |name: &str| planned.iter().find(|planned| planned.name == name);
        let waits = |name: &str| plan(name).is_some_and(|planned| planned.waits_in_gate() || planned.is_blocking());
        let is_limit = |prefix| matches!(prefix, keys::ON_TIMEOUT_PREFIX | keys::FAIL_FAST_PREFIX);
        let modes = self.declared.mode.own.keys().map(|name| (name, keys::MODE_PREFIX, "mode"));
        let timeouts = self.declared.timeout.own.keys().map(|name| (name, keys::TIMEOUT_PREFIX, "timeout"));
        let commands = self.declared.commands.keys().map(|name| (name, keys::COMMAND_PREFIX, "command"));
        let images = self.declared.images.keys().map(|name| (name, keys::IMAGE_PREFIX, "image"));
        let ready = self.declared.ready.keys().map(|name| (name, keys::READY_PREFIX, "check"));
        let on_timeout = self.declared.continue_on_timeout.own.keys();
        let on_timeout = on_timeout.map(|name| (name, keys::ON_TIMEOUT_PREFIX, "setting"));
        let fail_fast = self.declared.fail_fast.own.keys().map(|name| (name, keys::FAIL_FAST_PREFIX, "setting"));
        let restarts = self.declared.restart_with_dependency.own.keys();
        let restarts = restarts.map(|name| (name, keys::ON_DEPENDENCY_RESTART_PREFIX, "restart setting"));
        let is_held = |name: &str| self.declared.mode.of(name) == RequestedMode::Hold;
        let settings = modes.chain(timeouts).chain(on_timeout).chain(fail_fast).chain(restarts);
        for (name, prefix, what) in settings.chain(commands).chain(images).chain(ready) {
            let at = container_annotation_place(prefix, name);
            let has_command =
                |own: &ContainerRef<'_>| own.string_list("command").is_some_and(|words| !words.is_empty());
            let (why, fix) = if !involved.contains(name.as_str()) {
                (format!("{name} is not part of the order, so its {what} has no effect"), "remove it")
            } else if is_limit(prefix) && !waits(name) {
                (format!("{name} has no gate or hook that waits, so this annotation has no effect"), "remove it")
            } else if prefix == keys::READY_PREFIX && modes::ready_check(self.declared, self.graph, name).is_none() {
                (format!("no container waits until {name} is Ready, so this check has no effect"), "remove it")
            } else if prefix == keys::ON_DEPENDENCY_RESTART_PREFIX && self.graph.needs(name).is_empty() {
                (format!("{name} waits for no container, so this annotation has no effect"), "remove it")
            } else if prefix == keys::MODE_PREFIX && is_held(name) && self.graph.needs(name).is_empty() {
                (format!("{name} waits for no container, so hold mode has no effect"), "remove it")
            } else if prefix == keys::COMMAND_PREFIX && is_held(name) {
                (format!("{name} is in hold mode, which needs no command"), "remove one of the two")
            } else if prefix == keys::COMMAND_PREFIX && self.spec.get(name).is_some_and(has_command) {
                (format!("{name} has a command in its spec, so this annotation has no effect"), "remove one of the two")
            } else if prefix == keys::FAIL_FAST_PREFIX
                && plan(name).is_some_and(|planned| planned.fail_fast && planned.mode == PlannedMode::Hold)
            {
                let what = format!("{name} is in hold mode, and a held container cannot exit");
                let fix = format!("remove it, or write {}{name}: entrypoint", keys::MODE_PREFIX);
                findings.push(Finding::error("mode-conflict", at, what).fix(fix));
                continue;
            } else {
                if prefix == keys::IMAGE_PREFIX {
                    findings.extend(self.check_image(name, at));
                }
                continue;
            };
            findings.push(Finding::warning("unused-annotation", at, why).fix(fix));
        }
    }

    /// Reports a command that was read from another image, and an image annotation without a command annotation.
    fn check_image(&self, name: &str, at: Place) -> Option<Finding> {
        let (recorded, command) = (&self.declared.images[name], format!("{}{name}", keys::COMMAND_PREFIX));
        if !self.declared.commands.contains_key(name) {
            let what = format!("there is no {command}, so this annotation has no effect");
            return Some(Finding::warning("unused-annotation", at, what).fix("remove it"));
        }
        let image = self.spec.get(name)?.value.get("image")?.as_str()?;
        let what = format!("{command} was read from {recorded}, but the image of {name} is now {image}");
        let fix = "run kubectl podgate inject --resolve-images --annotate-only again, or remove both annotations";
        (!declare::is_recorded_image(recorded, image)).then(|| Finding::warning("image-changed", at, what).fix(fix))
    }
}

/// Adds notes about effects of the plan that the user may not expect.
fn add_notes(containers: &[ContainerPlan], findings: &mut Vec<Finding>) {
    let at = Place::spec("containers");
    let names: Vec<&str> = containers.iter().map(|planned| planned.name.as_str()).collect();
    if !containers.is_sorted_by_key(|planned| planned.index) {
        let what = format!(
            "podgate reorders the list of containers, because the kubelet starts them in list order: {}",
            names.join(", ")
        );
        findings.push(Finding::note("containers-moved", at.clone(), what));
    }
    let waiters = Waiters::of(containers);
    for (number, planned) in containers.iter().enumerate().filter(|(_, planned)| planned.is_blocking()) {
        let waiting = waiters.transitive_waiters(&planned.name, |_| true);
        let later = names[number + 1..].iter().copied();
        let unasked: Vec<&str> = later.filter(|later| !waiting.contains(later)).collect();
        if !unasked.is_empty() {
            let what = format!(
                "the hook of {name} also delays {}, which need not wait for {name}: the kubelet starts no container while a hook waits",
                unasked.join(", "),
                name = planned.name,
            );
            let fix = "use entrypoint mode, in which containers start in parallel";
            findings.push(Finding::note("not-side-by-side", at.clone().to(planned.index), what).fix(fix));
        }
    }
}

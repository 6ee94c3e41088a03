//! Builds the plan from the declaration.

use super::graph::{Graph, arrange_for_hooks};
use super::modes::{self, HookedContainers, ModeResolver};
use super::types::{ContainerPlan, GatePlan, KnownFacts, Plan, PlannedMode};
use super::without_sidecar::NoSidecarCandidate;
use super::{findings, init_containers, stop_order};
use crate::core::container::{Handler, Probe};
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::limits;
use crate::order::declare::spec::{ContainerRef, Spec, shares_processes};
use crate::order::declare::{self, Declaration, RequestedMode, SidecarUse};
use crate::order::finding::{Finding, has_errors};
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
    let init = init_containers::take_enforced_waits(&spec, &mut declared, &mut findings);
    let graph = Graph::new(&declared.edges, &mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let command = |own: &ContainerRef<'_>| {
        let words = modes::effective_command(own, &declared, known.images.get(own.name))?;
        Some((own.name.to_owned(), words))
    };
    let commands = spec.containers.iter().filter_map(command).collect();
    let candidate = NoSidecarCandidate { spec: &spec, declared: &declared, graph: &graph, commands: &commands, known };
    let reasons = candidate.reasons_for_sidecar();
    let needs_sidecar = !reasons.is_empty();
    let has_sidecar = match declared.sidecar.or(known.sidecar).unwrap_or_default() {
        SidecarUse::Always => true,
        SidecarUse::Auto => needs_sidecar,
        SidecarUse::None if !needs_sidecar => false,
        SidecarUse::None => {
            findings.extend(reasons);
            return Err(findings);
        }
    };
    declared.publish = declared.publish.or(known.publish);
    let outlives = stop_order::outlives(&spec, &declared, &graph, &mut findings);
    let planner = Planner {
        spec: &spec,
        declared: &declared,
        graph: &graph,
        commands,
        has_sidecar,
        outlived: outlives.values().flatten().cloned().collect(),
        pre_stop_limits: stop_order::pre_stop_limits(&outlives, spec.grace_period(), &mut findings),
        outlives,
        job_sidecars: declared.job_sidecars.iter().map(|item| item.until.container.as_str()).collect(),
        waiters,
        known,
    };
    let (containers, unprovable_conditions) = planner.plan_containers(&mut findings);
    if has_errors(&findings) {
        return Err(findings);
    }
    let Declaration { sidecar_resources, sidecar_settings, publish, .. } = declared;
    Ok(Plan {
        containers,
        init,
        sidecar_resources,
        sidecar_settings,
        has_sidecar,
        needs_sidecar,
        publish: publish.unwrap_or_default(),
        grace: spec.grace_period(),
        unprovable_conditions,
        findings,
    })
}

struct Planner<'a> {
    spec: &'a Spec<'a>,
    declared: &'a Declaration,
    graph: &'a Graph,
    commands: BTreeMap<String, Vec<String>>,
    has_sidecar: bool,
    outlives: BTreeMap<String, Vec<String>>,
    /// Containers that another container must outlive.
    outlived: BTreeSet<String>,
    pre_stop_limits: BTreeMap<String, std::time::Duration>,
    job_sidecars: BTreeSet<&'a str>,
    /// All containers for which the annotations declare a wait, even if Kubernetes keeps the order.
    waiters: BTreeSet<String>,
    known: &'a KnownFacts,
}

impl Planner<'_> {
    fn is_involved(&self, name: &str) -> bool {
        !self.graph.needs(name).is_empty()
            || self.graph.waiters_with_needs(name).next().is_some()
            || self.outlives.contains_key(name)
            || self.outlived.contains(name)
            || self.job_sidecars.contains(name)
            || self.declared.checks.contains_key(name)
            || self.declared.quits.contains_key(name)
            // The sidecars of a Job must detect the exit of every other container without delay.
            || (!self.job_sidecars.is_empty() && self.commands.contains_key(name))
    }

    /// Returns the plans, and the conditions that need podgate's role.
    fn plan_containers(&self, findings: &mut Vec<Finding>) -> (Vec<ContainerPlan>, BTreeSet<String>) {
        let Planner { spec, declared, graph, known, .. } = *self;
        let involved: Vec<&ContainerRef<'_>> =
            spec.containers.iter().filter(|own| self.is_involved(own.name)).collect();
        let names: BTreeSet<&str> = involved.iter().map(|own| own.name).collect();
        let gate_reasons = modes::gate_reasons(spec, graph, declared, &names);
        let modes = ModeResolver { graph, declared, commands: &self.commands, gate_reasons, known };
        let gated = |own: &&&ContainerRef<'_>| !graph.needs(own.name).is_empty() || self.needs_gate(own, &modes);
        let gated: BTreeSet<&str> = involved.iter().filter(gated).map(|own| own.name).collect();
        let hooked = modes.decide_hooked(&involved, &gated, findings);
        findings::check_exit_waits(spec, declared, graph, findings);
        let plan = |own| self.plan_container(own, [&names, &gated], &modes, &hooked);
        let mut planned: Vec<_> = spec.containers.iter().map(plan).collect();
        findings.extend(findings::of_settings(spec, declared, graph, &names, &planned));
        let unproven = if has_errors(findings) { Vec::new() } else { modes.unproven_conditions(spec, &planned) };
        let (unprovable_conditions, unproven): (_, Vec<Finding>) = unproven.into_iter().unzip();
        findings.extend(unproven);
        arrange_for_hooks(&mut planned, graph, &hooked.keys().map(String::as_str).collect());
        (planned, unprovable_conditions)
    }

    fn plan_container(
        &self,
        own: &ContainerRef<'_>,
        [involved, gated]: [&BTreeSet<&str>; 2],
        modes: &ModeResolver<'_>,
        hooked: &HookedContainers,
    ) -> ContainerPlan {
        let name = own.name;
        let after: Vec<WaitCondition> = self.graph.needs(name).iter().map(|need| need.until.clone()).collect();
        let mode = if !involved.contains(name) {
            PlannedMode::None
        } else if hooked.contains_key(name) {
            let ready = WaitCondition { container: name.to_owned(), want: WantedState::Ready };
            if self.needs_hook(own, hooked) { PlannedMode::PostStart(vec![ready]) } else { PlannedMode::None }
        } else if !modes.prefers_hold(name) && gated.contains(name) {
            PlannedMode::Entrypoint(self.gate(own))
        } else if after.is_empty() {
            PlannedMode::None
        } else {
            PlannedMode::Hold
        };
        let is_other = |other: &&str| !self.job_sidecars.contains(other) && !self.declared.quits.contains_key(*other);
        let others = || self.spec.containers.iter().map(|own| own.name).filter(is_other);
        let stop_after: Vec<String> =
            if self.job_sidecars.contains(name) { others().map(str::to_owned).collect() } else { Vec::new() };
        let wrapped_probe = self.wrapped_probe(own, &mode);
        let planned = ContainerPlan {
            name: name.to_owned(),
            index: own.index,
            mode_reason: match mode {
                PlannedMode::None if !involved.contains(name) && self.waiters.contains(name) => {
                    "Kubernetes keeps its order".to_owned()
                }
                PlannedMode::None if !involved.contains(name) => "it is not part of the order".to_owned(),
                PlannedMode::None if after.is_empty() => "it waits for nothing".to_owned(),
                PlannedMode::None => "earlier hooks hold it back".to_owned(),
                _ => modes.mode_reason(name, hooked),
            },
            reports_start: false,
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
        };
        let reports_start = modes.needs_start_report(own, &planned) && !shares_processes(self.spec.value);
        let wraps = if planned.wrapped_probe.is_some() { "; podgate wraps its readinessProbe" } else { "" };
        let reports = if reports_start { "; podgate's postStart hook reports its start" } else { "" };
        ContainerPlan { mode_reason: planned.mode_reason.clone() + wraps + reports, reports_start, ..planned }
    }

    /// Returns true if a container that waits for no other container needs a gate: to run a check, to end in order, or
    /// because nothing else proves a condition of a waiter as well.
    fn needs_gate(&self, own: &ContainerRef<'_>, modes: &ModeResolver<'_>) -> bool {
        let name = own.name;
        let with_sidecar = || {
            self.declared.mode.own.get(name) == Some(&RequestedMode::Entrypoint)
                || self.outlives.contains_key(name)
                || self.outlived.contains(name)
                || !self.job_sidecars.is_empty()
                || self.declared.quits.contains_key(name)
                || modes::ready_check(self.declared, self.graph, name).is_some_and(|check| !check.is_network())
                || modes.needs_agent_as_proof(own, self.wrapped_probe(own, &PlannedMode::None).is_some())
        };
        self.declared.checks.contains_key(name) || self.has_sidecar && with_sidecar()
    }

    /// Returns true if a postStart hook must wait until its own container is Ready.
    fn needs_hook(&self, own: &ContainerRef<'_>, hooked: &HookedContainers) -> bool {
        // A waiting gate reads the board itself. An exec probe, however, needs a hook, to run inside the container.
        let is_exec = self.has_inside_probe(own);
        let mut wanted = self.graph.waiters_with_needs(own.name);
        wanted.any(|(one, need)| need.until.want == WantedState::Ready && (is_exec || hooked.contains_key(one)))
    }

    fn gate(&self, own: &ContainerRef<'_>) -> GatePlan {
        let restarts = self.declared.restart_with_dependency.of(own.name);
        let providers = self.graph.needs_without_earlier_steps(own.name).filter(|_| restarts);
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
        let is_waited_for = self.graph.waiters_with_needs(name).next().is_some();
        self.graph.waiters_with_needs(name).any(|(_, need)| need.until.want.is_exit())
            || !self.job_sidecars.is_empty()
            || is_waited_for && self.has_inside_probe(own) && !self.may_wrap(own)
    }

    /// Returns true if the kubelet's own run of the exec readinessProbe can report for a gate, so that the gate need
    /// not remain the command's parent. The gate must open at once: after a wait, the kubelet's next run is late.
    fn may_wrap(&self, own: &ContainerRef<'_>) -> bool {
        let opens_at_once = self.graph.needs(own.name).is_empty() && !self.declared.checks.contains_key(own.name);
        // In a shared process namespace, the probe cannot tell the gate's report from that of an earlier run.
        opens_at_once && !shares_processes(self.spec.value) && self.exec_probe(own).is_some()
    }

    /// Returns the exec readinessProbe of a container that no check replaces.
    fn exec_probe(&self, own: &ContainerRef<'_>) -> Option<Probe> {
        let has_check = modes::ready_check(self.declared, self.graph, own.name).is_some();
        own.probe("readinessProbe")
            .filter(|probe| !has_check && matches!(&probe.handler, Handler::Exec(exec) if !exec.command.is_empty()))
    }

    /// Returns the exec readinessProbe of a container, if another container waits until this one is Ready. Returns
    /// `None` in modes in which a gate or hook runs the probe's command itself.
    fn wrapped_probe(&self, own: &ContainerRef<'_>, mode: &PlannedMode) -> Option<Probe> {
        let mut wanted = self.graph.waiters_with_needs(own.name);
        let runs_itself = match mode {
            PlannedMode::None | PlannedMode::Hold => false,
            PlannedMode::Entrypoint(gate) => gate.needs_parent,
            PlannedMode::PostStart(_) => true,
        };
        let is_wrapped = !runs_itself && wanted.any(|(_, need)| need.until.want == WantedState::Ready);
        self.exec_probe(own).filter(|_| is_wrapped)
    }

    /// Returns true if only the agent inside the container can check that the container is Ready.
    fn has_inside_probe(&self, own: &ContainerRef<'_>) -> bool {
        let ready = modes::ready_check(self.declared, self.graph, own.name);
        ready.map_or_else(|| own.ports_and_probes().probes().any(Probe::is_exec), |check| !check.is_network())
    }
}

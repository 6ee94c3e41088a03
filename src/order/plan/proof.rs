//! Finds a proof of each condition of a plan, or reports it. Only the kubelet's status as a proof needs podgate's role.

use super::modes::{ModeResolver, command_advice, entrypoint_mode_advice, ready_check};
use super::types::ContainerPlan;
use crate::core::container::Container;
use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{Edge, Publish, annotation_place, container_annotation_place, keys};
use crate::order::edit::Place;
use crate::order::finding::{Finding, Level};

impl ModeResolver<'_> {
    /// Returns true if a postStart hook must report that the container runs, because nothing else shows it without the
    /// API. The hook needs a process namespace of the container: otherwise no tether outlives the hook.
    pub(super) fn needs_start_report(&self, own: &ContainerRef<'_>, planned: &ContainerPlan) -> bool {
        let without = listed(own, Some(planned));
        let with = Container { reports_start: true, ..without.clone() };
        let mut needs = self.graph.waiters_with_needs(own.name);
        let helps = |want| without.needs_kubelet_status(want) && !with.needs_kubelet_status(want);
        let restarts = self.restarting_waiters(own.name).next().is_some() && without.restart_needs_kubelet_status();
        // Podgate's hook cannot run an httpGet hook of the user.
        own.value["lifecycle"]["postStart"]["httpGet"].is_null()
            && (restarts || needs.any(|(_, need)| helps(need.until.want)))
    }

    /// Returns true if nothing proves a condition of a waiter without the API, unless an agent in the container reports
    /// it. `is_probe_wrapped` means that podgate wraps the container's readinessProbe.
    pub(super) fn needs_agent_as_proof(&self, own: &ContainerRef<'_>, is_probe_wrapped: bool) -> bool {
        let mut entry = Container { reports_start: is_probe_wrapped, ..listed(own, None) };
        ready_check(self.declared, self.graph, own.name).iter().for_each(|ready| ready.replace_probes(&mut entry));
        let mut needs = self.graph.waiters_with_needs(own.name);
        needs.any(|(_, need)| entry.needs_kubelet_status(need.until.want))
            || self.restarting_waiters(own.name).next().is_some() && entry.restart_needs_kubelet_status()
    }

    /// Returns the containers that restart with `name`.
    fn restarting_waiters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let direct = self.graph.waiters_with_needs(name).filter(|(_, need)| need.is_direct);
        direct.map(|(waiter, _)| waiter).filter(|waiter| self.declared.restart_with_dependency.of(waiter))
    }

    /// Returns the conditions that only the kubelet's status proves. The finding of each is an error if the sidecar
    /// does not use the API, otherwise a warning.
    pub(super) fn unproven_conditions(&self, spec: &Spec<'_>, plans: &[ContainerPlan]) -> Vec<(String, Finding)> {
        let states = spec.regular_and_native().flat_map(|own| self.unproven_states(own, plans));
        let quits = self.declared.quits.keys().map(|name| {
            let at = container_annotation_place(keys::QUIT_PREFIX, name);
            let (what, finding) = self.condition(format!("that {name} must quit"), at, "remove this annotation");
            // Nothing waits for this at the start, and there is no other proof.
            let level = if finding.level == Level::Warning { Level::Note } else { finding.level };
            (what, Finding { level, ..finding })
        });
        let mut all: Vec<_> = states.chain(quits).collect();
        all.dedup();
        all.iter_mut().for_each(|(_, finding)| finding.fix += &super::findings::bind_role_command(spec.value));
        all
    }

    fn unproven_states(&self, own: &ContainerRef<'_>, plans: &[ContainerPlan]) -> Vec<(String, Finding)> {
        let name = own.name;
        let entry = listed(own, plans.iter().find(|planned| planned.name == name));
        let fix = match (own.is_native(), self.commands.contains_key(name)) {
            (true, _) => format!("give {name} an httpGet, tcpSocket or grpc probe"),
            (_, true) => entrypoint_mode_advice(name),
            (_, false) => command_advice(name),
        };
        let need = |(_, need): (&str, &Edge)| (need.until.want, need.at.clone(), Some(need.span.clone()));
        let needs = self.graph.waiters_with_needs(name).map(need);
        let is_awaited = plans.iter().any(|other| other.stop_after.iter().any(|awaited| awaited == name));
        let ends = is_awaited.then(|| (WantedState::Exited, annotation_place(keys::JOB_SIDECARS), None));
        let states = needs.chain(ends).filter(|(want, ..)| entry.needs_kubelet_status(*want));
        let states = states.map(|(want, at, span)| {
            let (what, finding) = self.condition(format!("{name}={want}"), at, &fix);
            (what, Finding { span, ..finding })
        });
        let restarts = self.restarting_waiters(name).filter(|_| entry.restart_needs_kubelet_status());
        let restarts = restarts.map(|waiter| {
            let at = annotation_place(&self.declared.restart_with_dependency.key(keys::ON_DEPENDENCY_RESTART, waiter));
            let ignore = format!("write {}{waiter}: ignore", keys::ON_DEPENDENCY_RESTART_PREFIX);
            self.condition(format!("a restart of {name}"), at, if own.is_native() { &ignore } else { &fix })
        });
        states.chain(restarts).collect()
    }

    /// Returns `what`, and the finding that only the kubelet's status shows it.
    fn condition(&self, what: String, at: Place, fix: &str) -> (String, Finding) {
        let only = format!("only the kubelet's status shows {what}");
        let finding = if self.declared.publish == Some(Publish::None) {
            let message = format!("{only}, but with {}: none, the sidecar does not read it", keys::PUBLISH_TARGET);
            let fix = format!("{fix}, or set {}: api and bind the role: ", keys::PUBLISH_TARGET);
            Finding::error("condition-never-met", at, message).fix(fix)
        } else {
            let message = format!("{only}: podgate learns it 1 to 2 s late, and never without its role");
            Finding::warning("known-by-kubelet", at, message).fix(format!("{fix}, or bind the role: "))
        };
        (what, finding)
    }
}

/// Returns a container's entry in the sidecar's list, with the fields that determine its proofs. `planned` is `None`
/// for a native sidecar.
fn listed(own: &ContainerRef<'_>, planned: Option<&ContainerPlan>) -> Container {
    let entry = own.ports_and_probes();
    if let Some(planned) = planned { planned.list_entry(entry) } else { entry }
}

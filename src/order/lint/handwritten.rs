//! Checks manifests that contain podgate's commands and declare no order.

use crate::core::command::{AgentCommand, Gate};
use crate::core::container::{Container, Mode};
use crate::core::container_list::{self, OrderError};
use crate::core::names;
use crate::core::pod;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject;
use crate::order::limits;
use serde_json::Value;

/// Checks podgate's commands in a template that declares no order. Returns `None` if the template has no such commands.
pub fn check_handwritten(template: &Value) -> Option<Vec<Finding>> {
    let spec = Spec::read(template, &mut Vec::new());
    let mut findings = Vec::new();
    let lines: Vec<AgentLines> = spec.containers.iter().map(AgentLines::of).collect();
    let mut listed = inject::sidecar_list(template).unwrap_or_default();
    listed.retain(|entry| entry.mode == Mode::Hold);
    let is_unused = |lines: &AgentLines| lines.gate.is_none() && lines.pre_stop.is_none();
    if listed.is_empty() && lines.iter().all(is_unused) {
        return None;
    }
    if let Err(finding) = limits::check(template, false) {
        return Some(finding.into());
    }
    for (own, lines) in spec.containers.iter().zip(&lines) {
        lines.check(own, &spec, &mut findings);
    }
    findings.extend(super::check_sidecar_position(template));
    let held = |name: &str| listed.iter().find(|entry| entry.name == name).cloned();
    let declared = |own: &pod::Container| held(&own.name).unwrap_or_else(|| own.declared());
    let containers: Vec<Container> = lines.iter().map(|lines| declared(&lines.container)).collect();
    if let Err(broken) = container_list::check_order(&containers) {
        let at = match &broken {
            OrderError::GateBeforeHook { hook, .. } | OrderError::HoldAndHook { hook, .. } => hook,
            OrderError::Cycle(names) => &names[0],
        };
        let at = spec.get(at).map(ContainerRef::place).unwrap_or_default();
        findings.push(Finding::error("order-broken", at, broken.to_string()));
    }
    Some(findings)
}

/// Podgate's commands in one container.
#[derive(Debug)]
struct AgentLines {
    container: pod::Container,
    /// Gate or postStart hook of the container, with its command line.
    gate: Option<(Gate, AgentCommand)>,
    pre_stop: Option<AgentCommand>,
}

impl AgentLines {
    fn of(own: &ContainerRef<'_>) -> AgentLines {
        let container: pod::Container = serde_json::from_value(own.value.clone()).unwrap_or_default();
        AgentLines {
            gate: container.gate().zip(container.gate_command()),
            pre_stop: container.pre_stop_command(),
            container,
        }
    }

    fn check(&self, own: &ContainerRef<'_>, spec: &Spec<'_>, findings: &mut Vec<Finding>) {
        let hook = |name: &str| own.place().to("lifecycle").to(name).to("exec").to("command");
        if let Some((gate, line)) = &self.gate {
            let is_gate = gate.mode == Mode::Entrypoint;
            let at = if is_gate { own.place().to("command") } else { hook("postStart") };
            self.check_names(line, &at, own, spec, findings);
            let has = |field: &str| !own.value[field].is_null();
            let is_closed = is_gate && !(gate.until.is_empty() && gate.checks.is_empty());
            if is_closed && has("livenessProbe") && !has("startupProbe") {
                let what = format!("the livenessProbe of {} kills the container while its gate waits", own.name);
                let fix = "add a startupProbe that runs podgate opened, which delays the livenessProbe";
                findings.push(Finding::warning("liveness-kills", own.place().to("livenessProbe"), what).fix(fix));
            }
        }
        if let Some(line) = &self.pre_stop {
            self.check_names(line, &hook("preStop"), own, spec, findings);
        }
    }

    /// Checks the container names in the command line `line` at the place `at`.
    fn check_names(
        &self,
        line: &AgentCommand,
        at: &Place,
        own: &ContainerRef<'_>,
        spec: &Spec<'_>,
        findings: &mut Vec<Finding>,
    ) {
        for list in ["--until", "--stop-after"].iter().flat_map(|flag| line.values(flag)) {
            let named = list.split(',').map(|text| text.split('=').next().unwrap_or_default());
            let is_native = |name: &str| spec.init(name).is_some_and(ContainerRef::is_native);
            let known = named.filter(|name| names::is_container_name(name) && !is_native(name));
            findings.extend(known.filter_map(|name| spec.check_name(name, at, None)));
        }
        if let Some(other) = line.values("--container").pop().filter(|name| *name != own.name) {
            let what = format!("--container is {other}, but this container is {}", own.name);
            let fix = format!("write --container {}", own.name);
            findings.push(Finding::error("unknown-container", at.clone(), what).fix(fix));
        }
    }
}

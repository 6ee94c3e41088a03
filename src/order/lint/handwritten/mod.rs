//! Checks manifests that contain podgate's commands and declare no order.

mod list;
mod outlook;

use crate::core::command::{AgentCommand, Gate};
use crate::core::container::Mode;
use crate::core::container_list;
use crate::core::names;
use crate::core::pod;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use crate::order::finding::{Finding, Level, has_errors};
use crate::order::inject::container_list::list_text;
use crate::order::inject::existing::is_held;
use crate::order::inject::parts::{self, AGENT_FIELDS};
use crate::order::limits;
use crate::order::plan::Plan;
use serde_json::Value;

/// Checks podgate's commands and the sidecar's list in a template that declares no order. Returns `None` if the template
/// has neither. Also returns the plan that the commands express, unless there are errors.
pub fn check_handwritten(template: &Value) -> Option<(Vec<Finding>, Option<Plan>)> {
    let spec = Spec::read(template, &mut Vec::new());
    let lines: Vec<AgentLines> = spec.containers.iter().map(AgentLines::of).collect();
    let sidecar = parts::find_sidecar(template);
    let is_unused = |lines: &AgentLines| lines.gate.is_none() && lines.pre_stop.is_none();
    if sidecar.as_ref().is_none_or(|(_, own)| list_text(own).is_none()) && lines.iter().all(is_unused) {
        return None;
    }
    if let Err(finding) = limits::check(template, false) {
        return Some((finding.into(), None));
    }
    let mut findings = Vec::new();
    for (own, lines) in spec.containers.iter().zip(&lines) {
        lines.check(own, &spec, &mut findings);
        let has_agent = AGENT_FIELDS.iter().any(|(short, _)| parts::agent_line(own.value, short).is_some());
        // A gate without a sidecar needs only the agent.
        let of_agent = parts::mounts(own.name, false).take(1 + usize::from(sidecar.is_some())).filter(|_| has_agent);
        let needed = of_agent.chain(is_held(own.value, own.name).then(parts::hold_mount));
        check_mounts(own.value, &own.place(), needed, &mut findings);
    }
    if let Some((own, lines)) = spec.containers.iter().zip(&lines).next_back()
        && lines.gate.as_ref().is_some_and(|(gate, _)| gate.mode == Mode::PostStart)
    {
        let what = format!("no container starts after {}, so its hook holds back no container", own.name);
        let fix = "remove the hook, because the kubelet does not update the Pod's status while the hook waits";
        let at = own.place().to("lifecycle").to("postStart");
        findings.push(Finding::warning("hook-without-effect", at, what).fix(fix));
    }
    findings.extend(super::check_sidecar_position(template));
    let declared = lines.iter().map(|lines| lines.container.declared()).collect();
    let containers = list::check(sidecar.as_ref(), &spec, declared, &mut findings);
    if let Some((place, own)) = &sidecar {
        let has_hold = containers.iter().any(|one| one.mode == Mode::Hold);
        check_mounts(own, place, parts::sidecar_mounts(has_hold).into_iter(), &mut findings);
    }
    if let Err(broken) = container_list::check_order(&containers) {
        let at = spec.get(&broken.container).map(ContainerRef::place).unwrap_or_default();
        findings.push(Finding::error("order-broken", at, broken.to_string()));
    }
    let plan = (!has_errors(&findings)).then(|| outlook::plan(&spec, &lines, &containers));
    Some((findings, plan))
}

/// Reports the mounts in `needed` that the container `own` lacks.
fn check_mounts(own: &Value, place: &Place, needed: impl Iterator<Item = Value>, findings: &mut Vec<Finding>) {
    let mounts = Place::root().to("volumeMounts").items(own);
    let is_at = |mount: &Value, wanted: &Value| {
        let mut keys = ["mountPath", "subPath", "subPathExpr"].into_iter();
        keys.all(|key| wanted[key].is_null() || mount[key] == wanted[key])
    };
    for wanted in needed.filter(|wanted| !mounts.iter().any(|mount| is_at(mount, wanted))) {
        let what = format!("{} lacks the mount of podgate's volume at {}", own["name"], wanted["mountPath"]);
        let found = Finding::error("mount-missing", place.to("volumeMounts"), what.replace('"', ""));
        // In a held container, only a kubelet older than 1.35 needs the mount.
        let level = if wanted["subPathExpr"].is_null() { Level::Error } else { Level::Warning };
        findings.push(Finding { level, ..found.fix(format!("add this item to its volumeMounts: {wanted}")) });
    }
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
            check_names(line, &at, own, spec, findings);
            let has = |field: &str| !own.value[field].is_null();
            let is_closed = is_gate && !(gate.until.is_empty() && gate.checks.is_empty());
            if is_closed && has("livenessProbe") && !has("startupProbe") {
                let what = format!("the livenessProbe of {} kills the container while its gate waits", own.name);
                let fix = "add a startupProbe that runs podgate opened, which delays the livenessProbe";
                findings.push(Finding::warning("liveness-kills", own.place().to("livenessProbe"), what).fix(fix));
            }
        }
        if let Some(line) = &self.pre_stop {
            check_names(line, &hook("preStop"), own, spec, findings);
        }
    }
}

fn check_names(line: &AgentCommand, at: &Place, own: &ContainerRef<'_>, spec: &Spec<'_>, findings: &mut Vec<Finding>) {
    let is_native = |name: &str| spec.init(name).is_some_and(ContainerRef::is_native);
    let named = ["--until", "--stop-after"].iter().flat_map(|flag| outlook::names(Some(line), flag));
    let known = named.filter(|name| names::is_container_name(name) && !is_native(name));
    findings.extend(known.filter_map(|name| spec.check_name(name, at, None)));
    if let Some(other) = line.values("--container").pop().filter(|name| *name != own.name) {
        let what = format!("--container is {other}, but this container is {}", own.name);
        let fix = format!("write --container {}", own.name);
        findings.push(Finding::error("unknown-container", at.clone(), what).fix(fix));
    }
}

//! Checks manifests that contain podgate's commands and declare no order.

use crate::core::command::{AgentCommand, Gate};
use crate::core::container::{Container, Handler, HttpGet, Mode, PortRef, TcpSocket};
use crate::core::container_list::{self, merge_containers, parse_list};
use crate::core::defaults::{PRE_STOP_GRACE, WAIT_TIMEOUT};
use crate::core::until::WaitCondition;
use crate::core::{names, pod};
use crate::order::declare::limits;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use crate::order::finding::{Finding, Level, has_errors};
use crate::order::inject::REWRITTEN_PATH_PREFIX;
use crate::order::inject::container_list::{difference, list_text, start_relevant_fields};
use crate::order::inject::existing::is_held;
use crate::order::inject::parts::{self, FIELD_SUBCOMMANDS};
use crate::order::plan::{ContainerPlan, GatePlan, Plan, PlannedMode};
use serde_json::Value;
use std::slice::from_ref;
use std::time::Duration;

/// Checks podgate's commands and the sidecar's list in a template that declares no order. Returns `None` if the
/// template has neither. Also returns the plan that the commands express, unless there are errors.
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
        let has_agent = FIELD_SUBCOMMANDS.iter().any(|(short, _)| parts::agent_line(own.value, short).is_some());
        // A gate without a sidecar needs only the agent.
        let of_agent = parts::mounts(own.name, false).take(1 + usize::from(sidecar.is_some())).filter(|_| has_agent);
        let needed = of_agent.chain(is_held(own.value, own.name).then(parts::held_container_mount));
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
    let containers = check_list(sidecar.as_ref(), &spec, declared, &mut findings);
    if let Some((place, own)) = &sidecar {
        let has_hold = containers.iter().any(|one| one.mode == Mode::Hold);
        check_mounts(own, place, parts::sidecar_mounts(has_hold).into_iter(), &mut findings);
    }
    if let Err(broken) = container_list::check_can_start(&containers) {
        let at = spec.regular(&broken.container).map(ContainerRef::place).unwrap_or_default();
        findings.push(Finding::error("order-broken", at, broken.to_string()));
    }
    let plan = (!has_errors(&findings)).then(|| to_plan(&spec, &lines, &containers));
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
struct AgentLines {
    container: pod::Container,
    /// Gate or postStart hook of the container, with its command line.
    gate: Option<(Gate, AgentCommand)>,
    pre_stop: Option<AgentCommand>,
}

impl AgentLines {
    fn of(own: &ContainerRef<'_>) -> AgentLines {
        let container: pod::Container = serde_json::from_value(own.value.clone()).unwrap_or_default();
        let gate = container.gate_or_hook().zip(container.gate_command());
        AgentLines { gate, pre_stop: container.pre_stop_command(), container }
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
    let is_native = |name: &str| spec.init_or_native(name).is_some_and(ContainerRef::is_native);
    let named = ["--until", "--stop-after"].iter().flat_map(|flag| container_names(Some(line), flag));
    let known = named.filter(|name| names::is_container_name(name) && !is_native(name));
    findings.extend(known.filter_map(|name| spec.check_regular_name(name, at, None)));
    if let Some(other) = line.values("--container").pop().filter(|name| *name != own.name) {
        let what = format!("--container is {other}, but this container is {}", own.name);
        let fix = format!("write --container {}", own.name);
        findings.push(Finding::error("unknown-container", at.clone(), what).fix(fix));
    }
}

/// Checks the list of `sidecar`. Returns the regular containers as the sidecar sees them; `declared` contains them as
/// the spec declares them.
fn check_list(
    sidecar: Option<&(Place, &Value)>,
    spec: &Spec<'_>,
    declared: Vec<Container>,
    findings: &mut Vec<Finding>,
) -> Vec<Container> {
    let list = sidecar.and_then(|(place, own)| Some((place.to("env"), list_text(own)?)));
    let Some((at, text)) = list else { return declared };
    let listed: Vec<Container> = serde_json::from_str(&text).unwrap_or_default();
    let before = findings.len();
    for entry in &listed {
        let native = spec.init_or_native(&entry.name).filter(|own| own.is_native());
        let Some(own) = spec.regular(&entry.name).or(native) else {
            findings.extend(spec.check_regular_name(&entry.name, &at, None));
            continue;
        };
        findings.extend(entry_difference(entry, own).map(|what| {
            let fix = "correct PODGATE_CONTAINERS, or the container";
            Finding::error("list-differs", at.clone(), what).fix(fix)
        }));
    }
    if let (Err(why), true) = (parse_list(&text), findings.len() == before) {
        findings.push(Finding::error("order-broken", at, format!("the sidecar rejects its list: {why}")));
    }
    merge_containers(&listed, &declared)
}

/// Describes the first value of `entry` that differs from the container `own`. The sidecar reads each value that
/// `entry` lacks from the spec.
fn entry_difference(entry: &Container, own: &ContainerRef<'_>) -> Option<String> {
    let container: pod::Container = serde_json::from_value(own.value.clone()).unwrap_or_default();
    let mut wanted = container.declared();
    let mut listed = merge_containers(from_ref(entry), from_ref(&wanted)).pop()?;
    if is_held(own.value, own.name) {
        (wanted.mode, wanted.until) = (Mode::Hold, listed.until.clone());
    }
    // A check, a command of podgate, or Istio replaces the container's own probe.
    let is_istio = |field: &str| own.value[field].to_string().contains(REWRITTEN_PATH_PREFIX);
    let is_replaced =
        |field| entry.ready_check.is_some() || parts::agent_line(own.value, field).is_some() || is_istio(field);
    let [no_startup, no_readiness] = ["startupProbe", "readinessProbe"].map(is_replaced);
    for container in [&mut listed, &mut wanted] {
        let known = container.clone();
        container.startup_probe.take_if(|_| no_startup);
        container.readiness_probe.take_if(|_| no_readiness);
        for probe in container.startup_probe.iter_mut().chain(&mut container.readiness_probe) {
            let number = known.probe_port(probe).map(PortRef::Number);
            if let Handler::HttpGet(HttpGet { port, .. }) | Handler::TcpSocket(TcpSocket { port, .. }) =
                &mut probe.handler
            {
                *port = number.unwrap_or_else(|| port.clone());
            }
        }
    }
    difference(&[start_relevant_fields(&listed)], &[start_relevant_fields(&wanted)])
}

/// Returns the plan that the commands express, for the forecast. `lines` and `containers` belong to the regular
/// containers of `spec`, in the same order.
fn to_plan(spec: &Spec<'_>, lines: &[AgentLines], containers: &[Container]) -> Plan {
    let mut hooks: Vec<WaitCondition> = Vec::new();
    let planned = spec.containers.iter().zip(lines).zip(containers).map(|((own, lines), entry)| {
        let (gate, stop) = (lines.gate.as_ref().map(|(_, line)| line), lines.pre_stop.as_ref());
        let (until, before, mut timeout) =
            (entry.until.clone(), hooks.clone(), duration(gate, "--timeout", WAIT_TIMEOUT));
        let (mode, after) = match entry.mode {
            Mode::None => (PlannedMode::None, before),
            Mode::PostStart => {
                hooks.extend(until.clone());
                (PlannedMode::PostStart(until), before)
            }
            Mode::Entrypoint => {
                let checks = values(gate, "--check").iter().filter_map(|text| text.parse().ok()).collect();
                (PlannedMode::Entrypoint(GatePlan { checks, ..GatePlan::default() }), until)
            }
            Mode::Hold => {
                timeout = entry.timeout_seconds.map_or(Duration::MAX, |limit| Duration::from_secs(limit.into()));
                (PlannedMode::Hold, until)
            }
        };
        ContainerPlan {
            name: own.name.to_owned(),
            index: own.index,
            mode,
            mode_reason: "written by hand".to_owned(),
            after,
            timeout,
            continue_on_timeout: entry.continue_on_timeout || values(gate, "--on-timeout") == ["continue"],
            outlives: container_names(stop, "--until").into_iter().map(str::to_owned).collect(),
            pre_stop_limit: duration(stop, "--grace", PRE_STOP_GRACE),
            stop_after: container_names(gate, "--stop-after").into_iter().map(str::to_owned).collect(),
            ..ContainerPlan::default()
        }
    });
    let containers = planned.collect();
    let has_sidecar = !lines.iter().any(|lines| lines.gate.as_ref().is_some_and(|(gate, _)| gate.asks));
    Plan { containers, has_sidecar, needs_sidecar: true, grace: spec.grace_period(), ..Plan::default() }
}

fn values<'a>(line: Option<&'a AgentCommand>, flag: &str) -> Vec<&'a str> {
    line.map(|line| line.values(flag)).unwrap_or_default()
}

/// Returns the containers in the values of `flag`, without states such as `=Exited`.
fn container_names<'a>(line: Option<&'a AgentCommand>, flag: &str) -> Vec<&'a str> {
    let conditions = values(line, flag).into_iter().flat_map(|list| list.split(','));
    conditions.map(|text| text.split('=').next().unwrap_or_default()).collect()
}

fn duration(line: Option<&AgentCommand>, flag: &str, default: Duration) -> Duration {
    values(line, flag).pop().and_then(|text| humantime::parse_duration(text).ok()).unwrap_or(default)
}

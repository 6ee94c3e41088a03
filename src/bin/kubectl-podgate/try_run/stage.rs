//! Turns the user's template into one that runs on this machine: each container gets a gate, and stand-ins get a command
//! and probes that work here. Pure, apart from the lookup of programs.

use super::args::{FaultKind, Try};
use super::programs::{Programs, find_program};
use super::{Refusal, example};
use podgate::core::container::{Container, Handler, Mode, Probe};
use podgate::core::until::WantedState;
use podgate::order::declare::keys;
use podgate::order::plan::{ContainerPlan, Plan};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Delay until a stand-in is Ready, without `--ready`.
const READY_DELAY: Duration = Duration::from_millis(500);
/// Time between Ready and exit 0 of a stand-in whose end others wait for, in milliseconds.
const EXIT_DELAY_MS: u64 = 300;

/// A container's part in the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) is_stand_in: bool,
    /// True if a startup or readiness probe determines Ready.
    pub(super) has_probe: bool,
    /// True if one of these probes runs a command. Only the gate can run it.
    pub(super) has_exec_probe: bool,
    /// Local ports that the container will open.
    pub(super) ports: BTreeSet<u16>,
}

/// The template to run, and what differs from a cluster.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) template: Value,
    pub(super) parts: BTreeMap<String, Part>,
    pub(super) notes: Vec<String>,
}

/// Settings that are equal for all containers.
struct Context<'a> {
    args: &'a Try,
    programs: &'a Programs,
    scratch: &'a Path,
    plan: &'a Plan,
    moved_ports: &'a BTreeMap<u16, u16>,
}

/// Builds the stage. `moved_ports` replaces ports that this user can't open.
pub(super) fn build(
    args: &Try,
    programs: &Programs,
    scratch: &Path,
    (template, plan): (&Value, &Plan),
    moved_ports: &BTreeMap<u16, u16>,
) -> Result<Stage, Refusal> {
    let named = args.ready.iter().map(|(name, _)| ("--ready", name));
    let faults = args.faults.iter().filter(|fault| fault.container != super::args::SIDECAR);
    for (flag, name) in named.chain(faults.map(|fault| ("--break", &fault.container))) {
        if plan.get(name).is_none() {
            let all: Vec<&str> = plan.containers.iter().map(|planned| planned.name.as_str()).collect();
            let line = format!("{flag} {name}: the Pod has no such container; it has {}", all.join(", "));
            return Err(Refusal { lines: vec![line], is_usage: true });
        }
    }
    let context = Context { args, programs, scratch, plan, moved_ports };
    let mut stage = Stage { template: without_nulls(template), parts: BTreeMap::new(), notes: Vec::new() };
    let annotations = stage.template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !key.starts_with(keys::MODE_PREFIX) && !key.starts_with(keys::COMMAND_PREFIX));
        annotations.insert(keys::MODE.to_owned(), "entrypoint".into());
        annotations.insert(keys::PUBLISH.to_owned(), "board".into());
    }
    let Some(spec) = stage.template.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(stage) };
    if spec.remove("initContainers").is_some_and(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        stage.notes.push("init containers and native sidecars do not run here".to_owned());
    }
    for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(planned) = container.get("name").and_then(Value::as_str).and_then(|name| plan.get(name)) else {
            continue;
        };
        stage.notes.extend(mode_note(planned));
        if let Some(container) = container.as_object_mut() {
            let part = context.write_part(container, planned, &mut stage.notes);
            stage.parts.insert(planned.name.clone(), part);
        }
    }
    Ok(stage)
}

/// Returns a note if the container waits in another way in a cluster.
fn mode_note(planned: &ContainerPlan) -> Option<String> {
    let how = match planned.mode {
        Mode::PostStart => "has a postStart hook in the cluster; a gate here",
        Mode::None if !planned.after.is_empty() => "is delayed by other containers' hooks in the cluster; a gate here",
        Mode::Entrypoint | Mode::None => return None,
    };
    Some(format!("{} {how}", planned.name))
}

impl Context<'_> {
    fn write_part(&self, container: &mut Map<String, Value>, planned: &ContainerPlan, notes: &mut Vec<String>) -> Part {
        for field in ["livenessProbe", "terminationMessagePath"] {
            container.remove(field);
        }
        let parsed: Container = serde_json::from_value(Value::Object(container.clone())).unwrap_or_default();
        let own = self.own_command(container, planned).unwrap_or_else(|why| {
            if self.args.processes {
                notes.push(format!("{} is a stand-in: {why}", planned.name));
            }
            None
        });
        let has_probe = parsed.probes().next().is_some();
        let has_exec_probe = parsed.probes().any(Probe::is_exec);
        let mut ports: BTreeSet<u16> = declared_tcp_ports(container).collect();
        ports.extend(parsed.probes().filter_map(|probe| parsed.probe_port(probe)));
        let mut words = vec![self.programs.own.display().to_string(), "stand-in".to_owned()];
        if let Some(command) = own {
            let variables = variables(container);
            let expand_all = |words: Vec<String>| words.iter().map(|word| expand(word, &variables)).collect::<Vec<_>>();
            for probe in ["startupProbe", "readinessProbe"].map(|field| format!("/{field}/exec/command")) {
                let mut whole = Value::Object(std::mem::take(container));
                if let Some(command) = whole.pointer_mut(&probe)
                    && let Ok(found) = serde_json::from_value::<Vec<String>>(command.clone())
                {
                    *command = json!(expand_all(found));
                }
                let Value::Object(fields) = whole else { continue };
                *container = fields;
            }
            words.push("--".to_owned());
            words.extend(expand_all(command));
            container.insert("command".to_owned(), json!(words));
            container.remove("args");
            return Part { is_stand_in: false, has_probe, has_exec_probe, ports };
        }
        words.extend(self.stand_in_flags(container, &parsed, planned, &ports, notes));
        let sleep = container.get("lifecycle").and_then(|hooks| hooks.get("preStop")?.get("sleep")).cloned();
        for field in ["args", "env", "envFrom", "workingDir", "lifecycle"] {
            container.remove(field);
        }
        if let Some(sleep) = sleep {
            container.insert("lifecycle".to_owned(), json!({"preStop": {"sleep": sleep}}));
        }
        container.insert("command".to_owned(), json!(words));
        let ports = ports.iter().map(|port| self.moved(*port)).collect();
        Part { is_stand_in: true, has_probe, has_exec_probe, ports }
    }

    /// Returns the container's own command if it can run here; `Ok(None)` without `--processes`.
    ///
    /// # Errors
    /// The reason why the command can't run here.
    fn own_command(
        &self,
        container: &Map<String, Value>,
        planned: &ContainerPlan,
    ) -> Result<Option<Vec<String>>, String> {
        if !self.args.processes {
            return Ok(None);
        }
        let plays = |name: &str| {
            let is_fault = |kind: FaultKind| !matches!(kind, FaultKind::Kill(_));
            self.args.ready.iter().any(|(ready, _)| ready == name)
                || self.args.faults.iter().any(|fault| fault.container == name && is_fault(fault.kind))
        };
        if plays(&planned.name) {
            return Err("--ready and --break need one".to_owned());
        }
        let Some(command) = planned.command.clone() else { return Err("its command is not known".to_owned()) };
        if container.get("volumeMounts").and_then(Value::as_array).is_some_and(|mounts| !mounts.is_empty()) {
            return Err("it mounts volumes".to_owned());
        }
        let program = command.first().map(String::as_str).unwrap_or_default();
        match find_program(program) {
            Some(_) => Ok(Some(command)),
            None => Err(format!("{program} is not on this machine")),
        }
    }

    fn stand_in_flags(
        &self,
        container: &mut Map<String, Value>,
        parsed: &Container,
        planned: &ContainerPlan,
        ports: &BTreeSet<u16>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let name = &planned.name;
        let ready_file = self.scratch.join(format!("ready-{name}"));
        let (mut http, mut is_exec) = (BTreeSet::new(), false);
        for (field, probe) in [("startupProbe", &parsed.startup_probe), ("readinessProbe", &parsed.readiness_probe)] {
            let Some(probe) = probe else { continue };
            is_exec |= probe.is_exec();
            let check = json!([self.programs.agent, "check", format!("file://{}", ready_file.display())]);
            http.extend(self.adapt_probe(container, field, (parsed, probe), check, notes));
        }
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(number) = port.get("containerPort").and_then(Value::as_u64) {
                port["containerPort"] = u16::try_from(number).map_or(json!(number), |port| json!(self.moved(port)));
            }
        }
        let mut words: Vec<String> = http.iter().map(|port| format!("--http={}", self.moved(*port))).collect();
        words.extend(ports.difference(&http).map(|port| format!("--port={}", self.moved(*port))));
        if is_exec {
            words.push(format!("--ready-file={}", ready_file.display()));
        }
        words.extend(self.timing_flags(planned, parsed.probes().next().is_some(), notes));
        words
    }

    /// Replaces a probe by one that the stand-in can answer. Returns the port on which it must answer HTTP requests.
    fn adapt_probe(
        &self,
        container: &mut Map<String, Value>,
        field: &str,
        (parsed, probe): (&Container, &Probe),
        check: Value,
        notes: &mut Vec<String>,
    ) -> Option<u16> {
        let name = &parsed.name;
        let fields = container.get_mut(field)?.as_object_mut()?;
        if probe.is_exec() {
            fields.insert("exec".to_owned(), json!({"command": check}));
            return None;
        }
        let port = parsed.probe_port(probe)?;
        let replaced = match &probe.handler {
            Handler::HttpGet(get) if get.scheme.as_deref().is_none_or(|scheme| scheme == "HTTP") => {
                let get = fields.get_mut("httpGet")?.as_object_mut()?;
                get.remove("host");
                get.insert("port".to_owned(), json!(self.moved(port)));
                return Some(port);
            }
            Handler::HttpGet(_) => Some("HTTPS"),
            Handler::Grpc(_) => Some("gRPC"),
            Handler::TcpSocket(_) | Handler::Exec(_) => None,
        };
        if let Some(kind) = replaced {
            notes.push(format!("the {field} of {name} is a TCP probe here, because stand-ins do not speak {kind}"));
        }
        fields.retain(|key, _| !matches!(key.as_str(), "httpGet" | "grpc" | "tcpSocket"));
        fields.insert("tcpSocket".to_owned(), json!({"port": self.moved(port)}));
        None
    }

    fn timing_flags(&self, planned: &ContainerPlan, has_probe: bool, notes: &mut Vec<String>) -> Vec<String> {
        let name = &planned.name;
        let must_end = must_end(self.plan, name);
        let given = self.args.ready.iter().rfind(|(ready, _)| ready == name).map(|(_, delay)| *delay);
        let example = example::READY.iter().find(|(ready, _)| self.args.file.is_none() && ready == name);
        let mut ready = Some(given.or(example.map(|(_, delay)| *delay)).unwrap_or(READY_DELAY));
        let mut words = Vec::new();
        for fault in self.args.faults.iter().filter(|fault| fault.container == *name) {
            match fault.kind {
                FaultKind::Never => ready = None,
                FaultKind::Slow(delay) => ready = Some(delay),
                FaultKind::Crash(delay) => words.push(format!("--crash-ms={}", delay.as_millis())),
                FaultKind::Kill(_) => {}
            }
        }
        if !has_probe && !must_end {
            if given.is_some() || ready.is_none() {
                notes.push(format!("{name} has no startupProbe and no readinessProbe, so it is Ready once it runs"));
            }
            ready = Some(Duration::ZERO);
        }
        words.extend(ready.map(|delay| format!("--ready-ms={}", delay.as_millis())));
        if must_end {
            words.push(format!("--exit-ms={EXIT_DELAY_MS}"));
        }
        words
    }

    fn moved(&self, port: u16) -> u16 {
        self.moved_ports.get(&port).copied().unwrap_or(port)
    }
}

/// Returns `value` without null fields, which the API treats as absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Returns true if the order asks for the end of a container.
pub(super) fn must_end(plan: &Plan, name: &str) -> bool {
    let is_end = |want| matches!(want, WantedState::Completed | WantedState::Exited);
    plan.containers.iter().any(|planned| {
        planned.stop_after.iter().any(|other| other == name)
            || planned.after.iter().any(|until| until.container == name && is_end(until.want))
    })
}

fn declared_tcp_ports(container: &Map<String, Value>) -> impl Iterator<Item = u16> {
    let ports = container.get("ports").and_then(Value::as_array).into_iter().flatten();
    let tcp = ports.filter(|port| port.get("protocol").and_then(Value::as_str).is_none_or(|kind| kind == "TCP"));
    tcp.filter_map(|port| u16::try_from(port.get("containerPort")?.as_u64()?).ok())
}

/// Returns the container's environment variables that have a value in the manifest.
pub(super) fn variables(container: &Map<String, Value>) -> BTreeMap<String, String> {
    let list = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let mut found = BTreeMap::new();
    for variable in list {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            let value = expand(value, &found);
            found.insert(name.to_owned(), value);
        }
    }
    found
}

/// Expands `$(NAME)`, and replaces `$$` by `$`, as Kubernetes does in commands and environment variables.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let name = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = match name.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            Some((value, after)) => {
                out.push_str(value);
                after
            }
            None => {
                out.push('$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_in_kubernetes() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expanded) in [("$(A)b", "1b"), ("$$(A)", "$(A)"), ("$(B) $HOME", "$(B) $HOME"), ("$", "$"), ("", "")]
        {
            assert_eq!(expand(text, &variables), expanded, "{text}");
        }
    }
}

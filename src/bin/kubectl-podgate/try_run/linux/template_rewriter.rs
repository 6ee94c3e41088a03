//! Rewrites the user's template so that it runs on this machine. Each container of the order gets a gate. Stand-ins get
//! commands and probes that work here.

use super::setup::Programs;
use super::source::{EXAMPLE_READY_DELAYS, EXAMPLE_TITLE, PlannedPod, required_exit};
use super::stand_in::StandInBehavior;
use crate::try_run::{FaultKind, TryArgs};
use podgate::core::container::{Container, Mode};
use podgate::core::until::WantedState;
use podgate::order::declare::keys;
use podgate::order::inject::without_nulls;
use podgate::order::plan::ContainerPlan;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// Delay until a stand-in is Ready, without `--ready`.
const READY_DELAY: Duration = Duration::from_millis(500);
/// Time in milliseconds between Ready and exit 0, for a stand-in whose exit other containers wait for.
const EXIT_DELAY_MS: u64 = 300;

type Fields = Map<String, Value>;

pub(super) struct Rewriter<'a> {
    pub(super) args: &'a TryArgs,
    pub(super) programs: &'a Programs,
    pub(super) planned: &'a PlannedPod,
    /// Containers for which a probe or a check of `ready.podgate.io` determines Ready.
    pub(super) probed: BTreeSet<String>,
    /// Notes on how this run differs from a start in a cluster.
    pub(super) notes: Vec<String>,
    /// The stand-ins' ports. All of them stay open until every port is known. Otherwise the same port could be found
    /// twice.
    pub(super) ports: Vec<TcpListener>,
}

impl Rewriter<'_> {
    /// Returns the template to inject. Fails if no local port can be opened.
    pub(super) fn rewrite(&mut self, template: &Value) -> io::Result<Value> {
        let mut template = without_nulls(template);
        if let Some(annotations) = template.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            let checks = annotations.keys().filter(|key| key.starts_with(keys::CHECK_PREFIX));
            self.notes.extend(checks.map(|key| format!("{key} is ignored: try runs no checks")));
            // The port of the stand-in replaces the check, as it replaces a probe.
            self.probed
                .extend(annotations.keys().filter_map(|key| key.strip_prefix(keys::READY_PREFIX)).map(str::to_owned));
            // A stand-in does not handle the request to exit. The stand-in's gate ends the stand-in instead.
            let asked = self.planned.plan.containers.iter().filter(|planned| planned.quit.is_some());
            let asked: Vec<String> = asked.map(|planned| planned.name.clone()).collect();
            self.notes.extend(asked.iter().map(|name| format!("this run ends {name}, but sends no request to exit")));
            let listed = annotations.get(keys::JOB_SIDECARS).and_then(Value::as_str).map(str::to_owned);
            let last: Vec<String> = listed.into_iter().chain(asked).collect();
            if !last.is_empty() {
                annotations.insert(keys::JOB_SIDECARS.to_owned(), last.join(", ").into());
            }
            let replaced = [keys::QUIT_PREFIX, keys::MODE_PREFIX, keys::COMMAND_PREFIX];
            annotations
                .retain(|key, _| !is_untested_key(key) && !replaced.iter().any(|prefix| key.starts_with(prefix)));
            annotations.insert(keys::MODE.to_owned(), "entrypoint".into());
            // Without the kubelet's status, only a gate shows at once that a stand-in has ended.
            let names = self.planned.plan.containers.iter().map(|planned| &planned.name);
            annotations.extend(names.map(|name| (format!("{}{name}", keys::MODE_PREFIX), "entrypoint".into())));
            annotations.insert(keys::PUBLISH_TARGET.to_owned(), "none".into());
            if annotations.remove(keys::SIDECAR).is_some() && !self.planned.plan.has_sidecar {
                self.notes
                    .push("this run has a sidecar; the Pod has none, and its gates keep the same order".to_owned());
            }
        }
        let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(template) };
        let PlannedPod { plan, natives, .. } = self.planned;
        let mut none = Vec::new();
        let init = spec.get_mut("initContainers").and_then(Value::as_array_mut).unwrap_or(&mut none);
        let is_moved = |one: &Value| natives.iter().any(|name| one["name"] == **name);
        let moved: Vec<Value> = init.extract_if(.., |one| is_moved(one)).collect();
        if !init.is_empty() {
            // Keep only the names, because the order may name these containers. No container waits for a plain init
            // container.
            init.iter_mut().for_each(|one| *one = json!({"name": one["name"]}));
            let note =
                "this run omits init containers, and native sidecars that have no probe or precede an init container";
            self.notes.push(note.to_owned());
        }
        let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) else { return Ok(template) };
        containers.splice(..0, moved);
        for container in containers {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let planned = plan.get(&name);
            if let Some(fields) = container.as_object_mut() {
                self.notes.extend(planned.and_then(mode_note));
                self.rewrite_container(fields, &name)?;
            }
        }
        Ok(template)
    }

    fn rewrite_container(&mut self, fields: &mut Fields, name: &str) -> io::Result<()> {
        fields.retain(|key, _| key != "livenessProbe" && key != "terminationMessagePath");
        let has_startup = fields.contains_key("startupProbe");
        self.notes.extend(has_startup.then(|| format!("{name} does not restart here if its startupProbe fails")));
        let container = serde_json::from_value::<Container>(json!(fields)).unwrap_or_default();
        let mut conditions = self.planned.plan.containers.iter().flat_map(|other| &other.after);
        if self.probed.contains(name) {
            fields.remove("startupProbe");
            fields.insert("readinessProbe".to_owned(), json!({}));
        } else if container.probes().next().is_some() {
            self.probed.insert(name.to_owned());
        } else if conditions.any(|until| until.container == name && until.want == WantedState::Ready) {
            self.notes.push(format!("{name} has no probe, so it counts as Ready as soon as it runs, in a cluster too"));
        }
        let role = self.role(fields, name)?;
        let hooks = fields.remove("lifecycle").unwrap_or_default();
        let sleep = hooks.get("preStop").and_then(|hook| hook.get("sleep"));
        for hook in ["postStart", "preStop"] {
            let is_dropped = hooks.get(hook).is_some() && (hook == "postStart" || sleep.is_none());
            self.notes.extend(is_dropped.then(|| format!("the {hook} hook of {name} does not run here")));
        }
        fields.extend(sleep.map(|sleep| ("lifecycle".to_owned(), json!({"preStop": {"sleep": sleep}}))));
        fields.retain(|key, _| !matches!(key.as_str(), "args" | "env" | "envFrom" | "workingDir"));
        let mut command = vec![json!(self.programs.own), json!("stand-in"), json!(json!(role).to_string())];
        let mut faults = self.args.faults.iter();
        if faults.any(|fault| fault.container == name && fault.kind == FaultKind::IgnoresTerm) {
            // The program inherits the ignored signal.
            command.splice(..0, ["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""].map(Value::from));
        }
        fields.insert("command".to_owned(), command.into());
        Ok(())
    }

    /// Returns the role of a stand-in, whose probes all ask one free port of this machine.
    fn role(&mut self, fields: &mut Fields, name: &str) -> io::Result<StandInBehavior> {
        let mut role = StandInBehavior::default();
        if self.probed.contains(name) {
            let listener = open_free_port()?;
            role.port = Some(listener.local_addr()?.port());
            self.ports.push(listener);
        }
        for field in ["startupProbe", "readinessProbe"] {
            if let Some(own) = fields.get_mut(field).and_then(Value::as_object_mut) {
                own.retain(|key, _| !matches!(key.as_str(), "exec" | "httpGet" | "grpc" | "tcpSocket"));
                own.insert("httpGet".to_owned(), json!({"path": "/", "port": role.port}));
            }
        }
        Ok(self.add_times(role, name))
    }

    /// Sets a role's times. `--ready` and `--break` determine Ready and the crash; the order determines the exit.
    fn add_times(&self, mut role: StandInBehavior, name: &str) -> StandInBehavior {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let given = self.args.ready.iter().rfind(|(ready, _)| ready == name).map(|(_, delay)| *delay);
        let example =
            EXAMPLE_READY_DELAYS.iter().find(|(ready, _)| self.planned.title == EXAMPLE_TITLE && *ready == name);
        let default_ms = Some(ms(example.map_or(READY_DELAY, |(_, delay)| *delay)));
        role.ready_ms = given.map(ms).or(default_ms);
        for fault in self.args.faults.iter().filter(|fault| fault.container == *name) {
            match fault.kind {
                FaultKind::Never => role.ready_ms = None,
                FaultKind::Crash(delay) => role.crash_ms = Some(ms(delay)),
                FaultKind::Kill(_) | FaultKind::IgnoresTerm => {}
            }
        }
        role.exit_ms = required_exit(&self.planned.plan, name).map(|_| EXIT_DELAY_MS);
        // Without probes, a container is Ready once it runs.
        if role.port.is_none() && role.exit_ms.is_none() {
            role.ready_ms = Some(0);
        }
        role
    }
}

/// Opens a free port below the ephemeral ports. The kernel could give an ephemeral port to an outgoing connection
/// before the stand-in opens the port.
fn open_free_port() -> io::Result<TcpListener> {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    // Two runs at the same time begin their search at different ports.
    let first = PORTS.start + (std::process::id().wrapping_mul(61) % u32::from(PORTS.end - PORTS.start)) as u16;
    let open = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    (first..PORTS.end).chain(PORTS.start..first).find_map(open).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

pub(super) fn is_untested_key(key: &str) -> bool {
    key.starts_with(keys::CHECK_PREFIX) || key.starts_with(keys::READY_PREFIX)
}

/// Returns a note if the container waits in another way in a cluster.
fn mode_note(planned: &ContainerPlan) -> Option<String> {
    let how = match planned.mode() {
        Mode::Hold => "is held by the kubelet in a cluster; this run uses a gate, which exits after a time-out",
        Mode::PostStart => "has a postStart hook in a cluster; this run uses a gate",
        Mode::None if !planned.after.is_empty() => "waits for earlier hooks in a cluster; this run uses a gate",
        Mode::Entrypoint | Mode::None => return None,
    };
    Some(format!("{} {how}", planned.name))
}

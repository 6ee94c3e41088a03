//! Turns the injected template into processes to run.

use super::Refusal;
use super::args::{FaultKind, SIDECAR, Try};
use super::guard::{self, Scratch};
use super::programs::Programs;
use super::source::Planned;
use super::stage::{self, Stage};
use podgate::core::command::agent_path;
use podgate::core::container::Mode;
use podgate::core::text::error_chain;
use podgate::core::until::WaitCondition;
use podgate::order::declare::SidecarPlacement;
use podgate::order::inject::{self, Options};
use podgate::order::plan::{KnownImages, Plan};
use podgate::order::release;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

/// Everything to run, and what the user should know about it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    pub(super) sidecar: Task,
    /// The sidecar's postStart hook. The containers start after it.
    pub(super) sidecar_hook: Vec<String>,
    /// True if the sidecar is a regular container, which stops together with the others.
    pub(super) is_sidecar_regular: bool,
    /// The containers in start order.
    pub(super) tasks: Vec<Task>,
    /// The Pod's grace period.
    pub(super) grace: Duration,
    pub(super) board: PathBuf,
    /// Containers to kill once, with the time since the Pod's start.
    pub(super) kills: Vec<(String, Duration)>,
}

/// One container as a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
    /// Command of the preStop hook.
    pub(super) pre_stop: Option<Vec<String>>,
    /// `Always`, `OnFailure` or `Never`.
    pub(super) restart_policy: String,
    pub(super) conditions: Vec<WaitCondition>,
    /// Containers that this one must outlive at the stop.
    pub(super) outlives: Vec<String>,
    pub(super) has_gate: bool,
    pub(super) has_probe: bool,
    pub(super) is_stand_in: bool,
    /// True if the stand-in itself reports Ready, because nothing runs its probe.
    pub(super) reports_ready: bool,
    /// True if the order asks for this container's end.
    pub(super) must_end: bool,
    /// True if the gate opens after its time limit.
    pub(super) continues_on_timeout: bool,
}

/// Builds the script: checks the ports, writes the stage and injects it.
pub(super) fn write(args: &Try, planned: &Planned, programs: &Programs, scratch: &Scratch) -> Result<Script, Refusal> {
    let Planned { title, template, plan, warnings } = planned;
    let build = |moved: &BTreeMap<u16, u16>| stage::build(args, programs, &scratch.folder, (template, plan), moved);
    let mut moved = BTreeMap::new();
    let mut stage = build(&moved)?;
    let mut notes = check_ports(&stage, &mut moved)?;
    if !moved.is_empty() {
        stage = build(&moved)?;
    }
    notes.extend(warnings.iter().cloned());
    notes.append(&mut stage.notes);
    let injected = inject::inject(&stage.template, &Options::new(release::sidecar_image()), &KnownImages::default());
    let injected = injected.map_err(|findings| Refusal {
        lines: findings.iter().map(|finding| format!("{title}: {}; {}", finding.message, finding.fix)).collect(),
        is_usage: false,
    })?;
    let value = &injected.value;
    let writer = TaskWriter {
        pod: value,
        stage: &stage,
        plan,
        local: injected.plan.as_ref().unwrap_or(plan),
        programs,
        folders: Folders {
            root: scratch.folder.clone(),
            board: scratch.subfolder("board")?,
            reports: scratch.subfolder("self")?,
            podinfo: scratch.subfolder("info")?,
        },
    };
    let containers = value.pointer("/spec/containers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (own, others): (Vec<&Value>, Vec<&Value>) = containers.iter().partition(|one| one["name"] == "podgate");
    let native = value.pointer("/spec/initContainers/0").filter(|one| one["name"] == "podgate");
    let Some(sidecar) = own.first().copied().or(native) else {
        return Err(Refusal::new(format!("{title}: the order requires nothing from podgate, so nothing would wait")));
    };
    let kills = args.faults.iter().filter_map(|fault| match fault.kind {
        FaultKind::Kill(after) => Some((fault.container.clone(), after)),
        _ => None,
    });
    Ok(Script {
        title: title.clone(),
        notes,
        sidecar: writer.sidecar(sidecar),
        sidecar_hook: [&programs.sidecar.display().to_string(), "ready", "--timeout", "60s"]
            .map(str::to_owned)
            .to_vec(),
        is_sidecar_regular: plan.sidecar_placement == SidecarPlacement::First,
        tasks: others.iter().map(|container| writer.task(container)).collect::<Result<_, _>>()?,
        grace: plan.grace,
        board: writer.folders.board.clone(),
        kills: kills.collect(),
    })
}

/// Checks that the containers can open their ports. Adds privileged ports of stand-ins, with a replacement, to `moved`.
fn check_ports(stage: &Stage, moved: &mut BTreeMap<u16, u16>) -> Result<Vec<String>, Refusal> {
    let (mut notes, mut errors, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen: BTreeMap<u16, &str> = BTreeMap::new();
    for (name, part) in &stage.parts {
        for port in &part.ports {
            if let Some(other) = seen.insert(*port, name) {
                errors.push(format!(
                    "{other} and {name} both use port {port}, but the containers of a Pod share the ports"
                ));
                continue;
            }
            match TcpListener::bind((Ipv4Addr::LOCALHOST, *port)) {
                Ok(listener) => open.push(listener),
                Err(error) if error.kind() == ErrorKind::PermissionDenied && part.is_stand_in => {
                    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                    let free = free.and_then(|free| Ok((free.local_addr()?.port(), free)));
                    let (other, listener) =
                        free.map_err(|error| Refusal::new(format!("can't open a port: {error}")))?;
                    notes.push(format!("{name} uses port {other} here, because port {port} needs root"));
                    moved.insert(*port, other);
                    open.push(listener);
                }
                Err(error) => errors.push(format!(
                    "port {port} of {name} can't be opened on this machine ({}); stop the program that uses it",
                    error_chain(&error)
                )),
            }
        }
    }
    if errors.is_empty() { Ok(notes) } else { Err(Refusal { lines: errors, is_usage: false }) }
}

struct Folders {
    root: PathBuf,
    board: PathBuf,
    reports: PathBuf,
    podinfo: PathBuf,
}

struct TaskWriter<'a> {
    pod: &'a Value,
    stage: &'a Stage,
    /// The plan for a cluster.
    plan: &'a Plan,
    /// The plan of the stage, in which every container of the order has a gate.
    local: &'a Plan,
    programs: &'a Programs,
    folders: Folders,
}

impl TaskWriter<'_> {
    fn sidecar(&self, container: &Value) -> Task {
        let list = container["env"].as_array().into_iter().flatten().find(|one| one["name"] == "PODGATE_CONTAINERS");
        let list = list.and_then(|one| one["value"].as_str()).unwrap_or_default();
        let mut environment = self.environment(&self.folders.reports, SIDECAR);
        environment.push(("PODGATE_CONTAINERS".into(), stage::expand(list, &BTreeMap::new()).into()));
        environment.push(("PODGATE_AGENT".into(), self.programs.agent.clone().into()));
        let words = ["--publish", "board", "--pod-ips", "127.0.0.1"].map(str::to_owned);
        Task {
            name: SIDECAR.to_owned(),
            words: [vec![self.programs.sidecar.display().to_string()], words.to_vec()].concat(),
            environment,
            folder: self.folders.root.clone(),
            restart_policy: "Always".to_owned(),
            ..Task::default()
        }
    }

    fn task(&self, container: &Value) -> Result<Task, Refusal> {
        let name = container["name"].as_str().unwrap_or_default();
        let part = self.stage.parts.get(name).cloned().unwrap_or_default();
        let planned = self.plan.get(name);
        // The gate runs exec probes only if another container waits for the result. In a cluster, the kubelet runs them.
        let is_unprobed = part.has_exec_probe && !self.local.get(name).is_some_and(|planned| planned.needs_parent);
        let mut environment = Vec::new();
        let mut folder = self.folders.root.clone();
        if !part.is_stand_in {
            let is_own = |name: &OsString| name.to_string_lossy().starts_with("PODGATE_");
            environment.extend(std::env::vars_os().filter(|(name, _)| !is_own(name)));
            let declared = container.as_object().map(stage::variables).unwrap_or_default();
            environment.extend(declared.into_iter().map(|(name, value)| (name.into(), value.into())));
            let declared = container["workingDir"].as_str().map(PathBuf::from).filter(|folder| folder.is_dir());
            folder = declared.or_else(|| std::env::current_dir().ok()).unwrap_or(folder);
        }
        environment.extend(self.environment(&self.folders.reports.join(name), name));
        let policy = container["restartPolicy"].as_str().or(self.pod["spec"]["restartPolicy"].as_str());
        Ok(Task {
            name: name.to_owned(),
            words: self.relocate(&container["command"]),
            environment,
            folder,
            pre_stop: container.pointer("/lifecycle/preStop/exec/command").map(|words| self.relocate(words)),
            restart_policy: policy.unwrap_or("Always").to_owned(),
            conditions: planned.map(|planned| planned.after.clone()).unwrap_or_default(),
            outlives: planned.map(|planned| planned.outlives.clone()).unwrap_or_default(),
            has_gate: self.local.get(name).is_some_and(|planned| planned.mode != Mode::None),
            has_probe: part.has_probe && (part.is_stand_in || !is_unprobed),
            is_stand_in: part.is_stand_in,
            reports_ready: part.is_stand_in && is_unprobed,
            must_end: stage::must_end(self.plan, name) || planned.is_some_and(|planned| !planned.stop_after.is_empty()),
            continues_on_timeout: planned.is_some_and(|planned| planned.continue_on_timeout),
        })
    }

    /// Replaces the paths of a container by paths on this machine.
    fn relocate(&self, words: &Value) -> Vec<String> {
        let agent = self.programs.agent.display().to_string();
        let words = words.as_array().into_iter().flatten().filter_map(Value::as_str);
        let replace = |word: &str| match word {
            word if word == agent_path() => agent.clone(),
            "/proc/1/fd/2" => "/proc/self/fd/2".to_owned(),
            // The value of `--then` is a JSON list.
            word => word.replace(&format!("\"{}\"", agent_path()), &format!("{:?}", agent)),
        };
        words.map(replace).collect()
    }

    fn environment(&self, reports: &std::path::Path, name: &str) -> Vec<(OsString, OsString)> {
        let termination_log = self.folders.root.join(format!("termination-log-{name}"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        [
            ("PATH", path),
            (guard::VARIABLE, self.folders.root.clone().into()),
            ("PODGATE_BOARD", self.folders.board.clone().into()),
            ("PODGATE_SELF", reports.into()),
            ("PODGATE_PODINFO", self.folders.podinfo.clone().into()),
            ("PODGATE_TERMINATION_LOG", termination_log.into()),
        ]
        .map(|(name, value)| (name.into(), value))
        .to_vec()
    }
}

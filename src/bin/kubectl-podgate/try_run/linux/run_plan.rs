//! Turns the injected template into processes to run.

use super::setup::{self, Programs};
use super::source::{self, PlannedPod};
use super::stand_in::StandInBehavior;
use super::template_rewriter::{Rewriter, is_untested_key};
use crate::error::CommandResult;
use crate::try_run::TryArgs;
use podgate::core::command::agent_path;
use podgate::core::until::{WaitCondition, WantedState};
use podgate::order::declare::spec::SIDECAR_NAME;
use podgate::order::inject::{self, Options};
use podgate::order::lint::forecast::Forecast;
use podgate::order::plan::{KnownFacts, Plan, PlannedMode};
use podgate::order::{dollars, release};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes to run, and notes about them for the user.
pub(super) struct RunPlan {
    pub(super) title: String,
    pub(super) notes: Vec<String>,
    /// The sidecar's postStart hook. The sidecar exits with 0 only if this hook has run.
    pub(super) sidecar_hook: Vec<String>,
    /// The sidecar, followed by the containers in start order.
    pub(super) tasks: Vec<ContainerTask>,
    pub(super) grace: Duration,
    pub(super) board: PathBuf,
}

/// One container as a process.
#[derive(Debug, Clone, Default)]
pub(super) struct ContainerTask {
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) pre_stop: Option<Vec<String>>,
    /// Restart policy: `Always`, `OnFailure` or `Never`.
    pub(super) restart_policy: String,
    pub(super) conditions: Vec<WaitCondition>,
    /// Containers that this one must outlive at the stop.
    pub(super) outlives: Vec<String>,
    pub(super) has_gate: bool,
    pub(super) has_probe: bool,
    /// The exit of this container that the order requires: `Completed` or `Exited`.
    pub(super) required_exit: Option<WantedState>,
}

/// Builds the run plan: rewrites the template, and injects.
pub(super) fn build(args: &TryArgs, planned: &PlannedPod, programs: &Programs, dir: &Path) -> CommandResult<RunPlan> {
    let PlannedPod { title, template, plan, warnings, .. } = planned;
    let mut stage =
        Rewriter { args, programs, planned, probed: BTreeSet::new(), notes: warnings.clone(), ports: Vec::new() };
    let staged = stage.rewrite(template).map_err(|error| format!("cannot open a local port: {error}"))?;
    // The stand-ins open these ports.
    stage.ports.clear();
    let injected = inject::inject(&staged, &Options::new(release::sidecar_image()), &KnownFacts::default());
    let injected =
        injected.map_err(|findings| source::findings_error(&findings, |one| format!("{title}: {}", one.message)))?;
    let containers = injected.value["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let (own, mut others): (Vec<&Value>, Vec<&Value>) = containers.iter().partition(|one| one["name"] == SIDECAR_NAME);
    let native = injected.value.pointer("/spec/initContainers/0").filter(|one| one["name"] == SIDECAR_NAME);
    let Some(sidecar) = own.first().copied().or(native) else {
        let has_checks = plan.containers.iter().any(|planned| !planned.checks().is_empty());
        let why = if has_checks { "the order has only checks, which try does not run" } else { "no container waits" };
        return Err(format!("{title}: nothing to preview: {why}").into());
    };
    let order = Forecast::of(plan).start_steps.concat();
    // Native sidecars are not in the forecast, and they start first.
    others.sort_by_key(|one| order.iter().position(|name| one["name"] == **name).map_or(0, |at| at + 1));
    let annotations = template["metadata"]["annotations"].as_object().into_iter().flatten();
    let tail =
        annotations.filter(|(key, _)| is_untested_key(key)).map(|(key, _)| format!(" ({key} is not tested here)"));
    let writer = TaskWriter {
        pod: &injected.value,
        probed: &stage.probed,
        plan,
        local: injected.plan.as_ref().unwrap_or(plan),
        programs,
        directories: setup::VOLUME_DIRECTORIES.map(|name| dir.join(name)),
    };
    Ok(RunPlan {
        title: title.clone() + &tail.collect::<String>(),
        notes: stage.notes.clone(),
        sidecar_hook: writer.sidecar_command(&["ready"]),
        tasks: std::iter::once(writer.sidecar(sidecar)).chain(others.iter().map(|one| writer.task(one))).collect(),
        grace: plan.grace,
        board: writer.directories[0].clone(),
    })
}

struct TaskWriter<'a> {
    pod: &'a Value,
    probed: &'a BTreeSet<String>,
    /// The plan for a cluster.
    plan: &'a Plan,
    /// The plan for this machine, on which every container of the order has a gate.
    local: &'a Plan,
    programs: &'a Programs,
    /// Paths of the board and the reports.
    directories: [PathBuf; 2],
}

impl TaskWriter<'_> {
    /// Returns a command line of the sidecar's program.
    fn sidecar_command(&self, words: &[&str]) -> Vec<String> {
        let (program, board) = (self.programs.sidecar.display().to_string(), self.directories[0].display().to_string());
        let words = [&[program.as_str()], words, &["--board", &board]].concat();
        self.bind(words.into_iter().map(str::to_owned).collect())
    }

    /// Returns a command line that runs `command`. The kernel kills the command when `try` ends for any reason.
    fn bind(&self, command: Vec<String>) -> Vec<String> {
        let role = StandInBehavior { command, ..StandInBehavior::default() };
        vec![self.programs.own.display().to_string(), "stand-in".to_owned(), json!(role).to_string()]
    }

    fn sidecar(&self, container: &Value) -> ContainerTask {
        let list = container["env"].as_array().into_iter().flatten().find(|one| one["name"] == "PODGATE_CONTAINERS");
        let list = list.and_then(|one| one["value"].as_str()).unwrap_or_default();
        let mut environment = self.environment(&self.directories[1], SIDECAR_NAME);
        environment.push(("PODGATE_CONTAINERS".into(), dollars::unescape(list).into()));
        environment.push(("PODGATE_AGENT".into(), self.programs.agent.clone().into()));
        ContainerTask {
            name: SIDECAR_NAME.to_owned(),
            words: self.sidecar_command(&["--publish", "none", "--pod-ips", "127.0.0.1"]),
            environment,
            restart_policy: "Always".to_owned(),
            ..ContainerTask::default()
        }
    }

    fn task(&self, container: &Value) -> ContainerTask {
        let name = container["name"].as_str().unwrap_or_default();
        let (planned, local) = (self.plan.get(name), self.local.get(name));
        let own_exit = planned.filter(|planned| planned.is_ended_with_job()).map(|_| WantedState::Completed);
        let policy = container["restartPolicy"].as_str().or(self.pod["spec"]["restartPolicy"].as_str());
        ContainerTask {
            name: name.to_owned(),
            words: self.relocate(&container["command"]),
            environment: self.environment(&self.directories[1].join(name), name),
            pre_stop: container.pointer("/lifecycle/preStop/exec/command").map(|words| self.relocate(words)),
            restart_policy: policy.unwrap_or("Always").to_owned(),
            conditions: local.map(|planned| planned.after.clone()).unwrap_or_default(),
            outlives: planned.or(local).map(|planned| planned.outlives.clone()).unwrap_or_default(),
            has_gate: local.is_some_and(|planned| planned.mode != PlannedMode::None),
            has_probe: self.probed.contains(name),
            required_exit: source::required_exit(self.plan, name).or(own_exit),
        }
    }

    /// Returns a command line of a container, with paths on this machine.
    fn relocate(&self, words: &Value) -> Vec<String> {
        let agent = self.programs.agent.display().to_string();
        let words = words.as_array().into_iter().flatten().filter_map(Value::as_str);
        let replace = |word: &str| match word {
            word if word == agent_path() => agent.clone(),
            "/proc/1/fd/2" => "/proc/self/fd/2".to_owned(),
            // The value of `--then` is a JSON list.
            word => word.replace(&format!("\"{}\"", agent_path()), &Value::from(agent.as_str()).to_string()),
        };
        self.bind(words.map(replace).collect())
    }

    fn environment(&self, reports: &Path, name: &str) -> Vec<(OsString, OsString)> {
        let variables: [(&str, OsString); 4] = [
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("PODGATE_BOARD", self.directories[0].clone().into()),
            ("PODGATE_SELF", reports.into()),
            ("PODGATE_TERMINATION_LOG", self.directories[0].with_file_name(format!("termination-log-{name}")).into()),
        ];
        variables.map(|(name, value)| (name.into(), value)).into()
    }
}

//! The Pod as the API returns it, reduced to the fields that podgate reads. The programs that call the API server wrap
//! these types in their client's object type.

use crate::core::command::{self, AgentCommand, Gate};
use crate::core::container::{self, Exec, Handler, Mode, Port, Probe};
use crate::core::restart::RestartRule;
use crate::core::until::{WaitCondition, WantedState};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Declares structs with fields of the API. A field of an unexpected type counts as absent, so that one bad field
/// cannot hide the rest of the Pod. (Derived code with the same effect would make the sidecar 72 KiB larger.)
macro_rules! model {
    ($($(#[$about:meta])* $struct:ident { $($name:literal $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        #[expect(missing_docs, reason = "the fields have the names and meanings of the API")]
        pub struct $struct {
            $(pub $field: $type,)*
        }

        impl<'de> Deserialize<'de> for $struct {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = Value::deserialize(from)?;
                Ok($struct { $($field: field(&value, $name),)* })
            }
        }
    )*};
}

fn field<T: DeserializeOwned + Default>(value: &Value, name: &str) -> T {
    value.get(name).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

model! {
    /// `spec` of a Pod.
    PodSpec {
        "containers" containers: Vec<Container>,
        "initContainers" init_containers: Vec<Container>,
        "nodeName" node_name: Option<String>,
        "restartPolicy" restart_policy: Option<String>,
    }
    /// One container of a spec.
    Container {
        "name" name: String,
        "command" command: Vec<String>,
        "args" args: Vec<String>,
        "env" env: Vec<EnvVar>,
        "ports" ports: Vec<Port>,
        "startupProbe" startup_probe: Option<Probe>,
        "readinessProbe" readiness_probe: Option<Probe>,
        "restartPolicy" restart_policy: Option<String>,
        "restartPolicyRules" restart_policy_rules: Vec<RestartRule>,
        "lifecycle" lifecycle: Lifecycle,
    }
    /// An environment variable. The value is empty if it comes from `valueFrom`.
    EnvVar { "name" name: String, "value" value: String, }
    /// Lifecycle hooks of a container.
    Lifecycle { "postStart" post_start: Hook, "preStop" pre_stop: Hook, }
    /// One lifecycle hook.
    Hook { "exec" exec: Exec, }
    /// `status` of a Pod.
    PodStatus {
        "phase" phase: Option<String>,
        "conditions" conditions: Vec<PodCondition>,
        "containerStatuses" container_statuses: Vec<ContainerStatus>,
        "initContainerStatuses" init_container_statuses: Vec<ContainerStatus>,
    }
    /// One condition of a status.
    PodCondition {
        "type" kind: String,
        "status" status: String,
        "lastTransitionTime" last_transition_time: Option<String>,
    }
    /// The kubelet's status of one container.
    ContainerStatus {
        "name" name: String,
        "containerID" container_id: Option<String>,
        "ready" ready: bool,
        "started" started: Option<bool>,
        "restartCount" restart_count: u32,
        "state" state: ContainerState,
        "lastState" last_state: ContainerState,
    }
    /// State of a container. At most one field is set.
    ContainerState { "running" running: Option<Running>, "terminated" terminated: Option<Terminated>, "waiting" waiting: Option<Waiting>, }
    /// A running container.
    Running { "startedAt" started_at: Option<String>, }
    /// A terminated container.
    Terminated {
        "exitCode" exit_code: i32,
        "startedAt" started_at: Option<String>,
        "finishedAt" finished_at: Option<String>,
        "reason" reason: Option<String>,
        "message" message: Option<String>,
        "containerID" container_id: Option<String>,
    }
    /// A container that is neither running nor terminated.
    Waiting { "reason" reason: Option<String>, "message" message: Option<String>, }
}

impl Container {
    /// Returns the value of the environment variable `name`, if the spec contains a value.
    pub fn env_value(&self, name: &str) -> Option<String> {
        let set = self.env.iter().rfind(|variable| variable.name == name && !variable.value.is_empty());
        set.map(|variable| variable.value.clone())
    }

    /// Returns the command line of podgate's hook or gate in this container, if any.
    pub fn gate_command(&self) -> Option<AgentCommand> {
        let hook =
            AgentCommand::parse(&self.lifecycle.post_start.exec.command).filter(|line| line.subcommand == "post-start");
        let whole = || AgentCommand::parse(&[self.command.as_slice(), &self.args].concat());
        hook.or_else(|| whole().filter(|line| line.subcommand == "entrypoint"))
    }

    /// Returns podgate's hook or gate in this container, if any. A hook that waits only for the start of its own container
    /// delays no container, so it does not count.
    pub fn gate_or_hook(&self) -> Option<Gate> {
        let own_start = WaitCondition { container: self.name.clone(), want: WantedState::Started };
        let gate = Gate::from_command(&self.gate_command()?)?;
        (gate.mode != Mode::PostStart || gate.until != [own_start] || !gate.checks.is_empty()).then_some(gate)
    }

    /// Returns the command line of podgate's preStop hook, if any.
    pub fn pre_stop_command(&self) -> Option<AgentCommand> {
        AgentCommand::parse(&self.lifecycle.pre_stop.exec.command).filter(|line| line.subcommand == "pre-stop")
    }

    /// Returns true for podgate's own sidecar.
    pub fn is_sidecar(&self) -> bool {
        let runs =
            |words: &[String]| words.first().is_some_and(|word| command::file_name(word) == "podgate-controller");
        runs(&self.command)
            || runs(&self.lifecycle.post_start.exec.command)
            || self.env.iter().any(|variable| variable.name == "PODGATE_CONTAINERS")
    }

    /// Returns the container's declaration, with the startup probe that it had before injection.
    pub fn declared(&self) -> container::Container {
        let (mode, until) = self.gate_or_hook().map_or_else(Default::default, |gate| (gate.mode, gate.until));
        let has_probe = self.startup_probe.is_some() || self.readiness_probe.is_some();
        let line = self.gate_command();
        let ready_check = line.as_ref().and_then(|line| line.values("--ready-check").first().copied());
        container::Container {
            name: self.name.clone(),
            // If the container has a probe, `--ready-check` runs that probe's command and does not replace the probe.
            ready_check: ready_check.filter(|_| !has_probe).map(str::to_owned),
            ports: self.ports.clone(),
            startup_probe: self.startup_probe.as_ref().and_then(|probe| self.original_probe(probe)),
            readiness_probe: self.readiness_probe.clone(),
            restart_policy: self.restart_policy.clone(),
            restart_policy_rules: self.restart_policy_rules.clone(),
            mode,
            pre_stop: self.pre_stop_command().is_some(),
            reports_start: mode == Mode::None && line.is_some(),
            until,
            ..container::Container::default()
        }
    }

    /// Returns the startupProbe without podgate's part. `podgate opened --check URL` becomes a probe of that URL, and
    /// `podgate opened` alone becomes `None`. Podgate's part is an `exec` probe, which the sidecar could not run.
    fn original_probe(&self, probe: &Probe) -> Option<Probe> {
        let Some(line) = probe.opened_command() else { return Some(probe.clone()) };
        let checks = line.values("--check");
        let handler = Handler::from_check(checks.iter().find_map(|url| url.parse().ok())?)?;
        // With --wait, the probe's own time limit covers the whole wait, so use the time limit of one check.
        let timeout = line.values("--check-timeout").pop().and_then(|text| humantime::parse_duration(text).ok());
        let timeout = timeout.map_or(1, |timeout| u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1));
        Some(Probe { handler, timeout_seconds: timeout, ..probe.clone() })
    }
}

impl Probe {
    /// Returns the command line if the probe runs `podgate opened`. Such a probe tests the gate, not the application.
    pub fn opened_command(&self) -> Option<AgentCommand> {
        let Handler::Exec(exec) = &self.handler else { return None };
        AgentCommand::parse(&exec.command).filter(|line| line.subcommand == "opened")
    }
}

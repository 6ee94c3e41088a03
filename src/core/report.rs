//! The agent's report on its own container: the file `report` in the container's directory.
//!
//! The file has the same `key="value"` lines as the annotations. Its directory, never its content, determines the
//! container that the report belongs to. A report counts only if its sandbox and epoch are current.

use crate::core::annotations::{self, Torn};
use crate::core::container_list::CONTAINERS_MAX;
use crate::core::names::is_container_name;
use crate::core::sandbox::SandboxId;
use crate::core::snapshot::is_short_alphanumeric;
use crate::core::until::WaitCondition;
use crate::core::words::words;

/// Maximum length of the epoch and the agent's version, in bytes.
const WORD_MAX: usize = 64;
/// Maximum length of the list of watched containers, in bytes. [`ALL_CONTAINERS`] replaces a longer list.
const WATCHING_MAX: usize = 256;
/// Space for everything in a report except its list of conditions, in bytes.
const OTHER_KEYS_SIZE: usize = 512 + WATCHING_MAX;
/// Item that stands for all containers in a list of containers.
pub const ALL_CONTAINERS: &str = "*";

/// Returns the size in bytes of the file that the sidecar reserves for the reports of a container with these
/// conditions. The sidecar reserves the file before another container can fill the volume.
pub fn reserved_size(conditions: &[WaitCondition]) -> usize {
    let list = Report { waiting_for: conditions.to_vec(), ..Report::default() };
    (list.to_text().len() + OTHER_KEYS_SIZE).next_multiple_of(annotations::PAGE_SIZE)
}

words! {
    /// State of an entrypoint gate.
    GateState {
        /// The container's command has not started.
        Waiting = "waiting",
        /// The gate has opened, and the command runs or is about to run.
        Opened = "opened",
    }
}

words! {
    /// State of a container's preStop hook.
    #[derive(Default, PartialOrd, Ord)]
    PreStopState {
        /// The hook has not started. The report then has no key `stopping`.
        #[default]
        NotBegun = "",
        /// The hook runs and may wait for other containers.
        Begun = "true",
        /// The hook has finished, and the container is about to receive its stop signal.
        Finished = "over",
    }
}

/// Identifies a process by pid and start time, so that a reused pid is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Process id in the container's PID namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

/// The agent's report on its container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Report {
    /// Sandbox in which the agent runs.
    pub sandbox: Option<SandboxId>,
    /// Epoch that the agent has read from the board.
    pub epoch: String,
    /// Version of the agent.
    pub agent_version: String,
    /// State of the gate, if the container has one.
    pub gate: Option<GateState>,
    /// Time since the node's boot at which the gate opened, in milliseconds (`CLOCK_BOOTTIME`).
    pub opened_at: Option<u64>,
    /// Conditions that the gate or hook waits for.
    pub waiting_for: Vec<WaitCondition>,
    /// True if the container's own process has started.
    pub started: bool,
    /// True if all `--check`s have passed.
    pub check_passed: bool,
    /// True if a wrapped probe has passed before and fails now.
    pub check_fails: bool,
    /// True if the agent is the command's parent, so that it reports the exit code unless it is killed.
    pub is_parent: bool,
    /// Exit code of the command. Set only if the agent is the command's parent.
    pub exit_code: Option<i32>,
    /// State of the preStop hook.
    pub stopping: PreStopState,
    /// Random id of this start of the gate.
    pub ticket: Option<String>,
    /// Process of the gate, which later runs the container's command. In the report of a probe, this is process 1.
    pub process: Option<Process>,
    /// Containers that the agent keeps watching after the gate has opened, or [`ALL_CONTAINERS`].
    pub watched_containers: Vec<String>,
}

impl Report {
    /// Returns the text of the report file.
    pub fn to_text(&self) -> String {
        let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(","));
        // The file must fit into the space that the sidecar has reserved.
        let watching = |names: String| if names.len() > WATCHING_MAX { ALL_CONTAINERS.to_owned() } else { names };
        let lines = [
            ("sandbox", self.sandbox.as_ref().map(SandboxId::to_string)),
            ("epoch", Some(self.epoch.clone())),
            ("agent", Some(self.agent_version.clone())),
            ("gate", self.gate.map(|gate| gate.to_string())),
            ("opened-at", self.opened_at.map(|at| at.to_string())),
            ("waiting-for", list(self.waiting_for.iter().map(WaitCondition::to_string).collect())),
            ("started", self.started.then(|| "true".to_owned())),
            ("check", self.check_passed.then(|| "passed".to_owned()).or(self.check_fails.then(|| "fails".to_owned()))),
            ("parent", self.is_parent.then(|| "true".to_owned())),
            ("exit-code", self.exit_code.map(|code| code.to_string())),
            ("stopping", (self.stopping != PreStopState::NotBegun).then(|| self.stopping.as_str().to_owned())),
            ("ticket", self.ticket.clone()),
            ("process", self.process.map(|process| format!("{}:{}", process.pid, process.start_ticks))),
            ("watching", list(self.watched_containers.clone()).map(watching)),
        ];
        annotations::write(&lines.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    }

    /// Returns the text of the report file, padded to at least `size` bytes (see [`annotations::pad_with_hash`]).
    pub fn to_padded_text(&self, size: usize) -> String {
        annotations::pad_with_hash(self.to_text(), size)
    }

    /// Parses a report. Fails if the file is incomplete. Skips invalid values, and list items after the first
    /// [`CONTAINERS_MAX`]. Another container writes the report and must not fill the sidecar's memory.
    pub fn parse(bytes: &[u8]) -> Result<Report, Torn> {
        let found = annotations::read(bytes, |_| true)?;
        let get = |key: &str| found.get(key).map(String::as_str);
        let is = |key: &str, value: &str| get(key) == Some(value);
        let word = |key: &str| get(key).filter(|word| word.len() <= WORD_MAX).unwrap_or_default().to_owned();
        Ok(Report {
            sandbox: get("sandbox").and_then(|v| v.parse().ok()),
            epoch: word("epoch"),
            agent_version: word("agent"),
            gate: get("gate").and_then(|v| v.parse().ok()),
            opened_at: get("opened-at").and_then(|v| v.parse().ok()),
            waiting_for: read_list(get("waiting-for"), |item| item.parse().ok()),
            started: is("started", "true"),
            check_passed: is("check", "passed"),
            check_fails: is("check", "fails"),
            is_parent: is("parent", "true"),
            exit_code: get("exit-code").and_then(|v| v.parse().ok()),
            stopping: get("stopping").and_then(|v| v.parse().ok()).unwrap_or_default(),
            ticket: get("ticket").filter(|ticket| is_short_alphanumeric(ticket)).map(str::to_owned),
            process: get("process").and_then(|text| {
                let (pid, start) = text.split_once(':')?;
                Some(Process { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? })
            }),
            watched_containers: read_list(get("watching"), |name| {
                (name == ALL_CONTAINERS || is_container_name(name)).then(|| name.to_owned())
            }),
        })
    }

    /// Returns true if the report belongs to `sandbox`.
    pub fn is_from_sandbox(&self, sandbox: &SandboxId) -> bool {
        self.sandbox.as_ref().is_some_and(|own| own.matches(sandbox))
    }

    /// Returns true if the gate has opened.
    pub fn has_gate_opened(&self) -> bool {
        self.gate == Some(GateState::Opened)
    }
}

/// Returns the distinct valid items among the first [`CONTAINERS_MAX`] of a list.
fn read_list<T: PartialEq>(text: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let mut items = Vec::new();
    for item in text.unwrap_or_default().split(',').take(CONTAINERS_MAX).filter_map(parse) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items
}

//! The agent's report on its own container: the file `report` in the container's folder.
//!
//! The file has the same `key="value"` lines as the annotations. The file's folder, never its content, determines the
//! container that the report belongs to. A report counts only if its sandbox and epoch are current.

use crate::core::annotations::{self, Torn};
use crate::core::names::is_container_name;
use crate::core::sandbox::SandboxId;
use crate::core::snapshot::is_plain_word;
use crate::core::until::WaitCondition;
use crate::core::words::words;

const SANDBOX: &str = "sandbox";
const EPOCH: &str = "epoch";
const AGENT: &str = "agent";
const GATE: &str = "gate";
const WAITING_FOR: &str = "waiting-for";
const STARTED: &str = "started";
const CHECK: &str = "check";
const EXIT_CODE: &str = "exit-code";
const STOPPING: &str = "stopping";
const TICKET: &str = "ticket";
const PROCESS: &str = "process";
const WATCHING: &str = "watching";
/// Filler that sorts after all other keys and is never read.
const PADDING: &str = "~";

/// Size in bytes (one page) of the report file that the sidecar creates in each folder before a container can fill the
/// volume.
pub const RESERVED_SIZE: usize = 4096;

words! {
    /// State of an entrypoint gate.
    GateState {
        /// The container's command has not started.
        Waiting = "waiting",
        /// The gate has opened, and the command runs or is about to run.
        Opened = "opened",
    }
}

/// State of a container's preStop hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PreStopState {
    /// The hook has not started.
    #[default]
    NotBegun,
    /// The hook runs and may wait for other containers.
    Begun,
    /// The hook has finished, and the container is about to receive its stop signal.
    Finished,
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
pub struct Report {
    /// Sandbox in which the agent runs.
    pub sandbox: Option<SandboxId>,
    /// Epoch that the agent has read from the board.
    pub epoch: String,
    /// Version of the agent.
    pub agent_version: String,
    /// State of the gate, if the container has one.
    pub gate: Option<GateState>,
    /// Conditions that the gate or hook waits for.
    pub waiting_for: Vec<WaitCondition>,
    /// True if the container's own process has started.
    pub started: bool,
    /// True if all `--check`s have passed.
    pub check_passed: bool,
    /// Exit code of the command. Set only if the agent is the command's parent.
    pub exit_code: Option<i32>,
    /// State of the preStop hook.
    pub stopping: PreStopState,
    /// Random id of this start of the gate.
    pub ticket: Option<String>,
    /// Process of the gate. After `execve`, the same process runs the container's command.
    pub process: Option<Process>,
    /// Containers that the agent keeps watching after the gate has opened.
    pub watched_containers: Vec<String>,
}

impl Report {
    /// Returns the text of the report file.
    pub fn to_text(&self) -> String {
        let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(","));
        let lines = [
            (SANDBOX, self.sandbox.as_ref().map(SandboxId::to_string)),
            (EPOCH, Some(self.epoch.clone())),
            (AGENT, Some(self.agent_version.clone())),
            (GATE, self.gate.map(|gate| gate.to_string())),
            (WAITING_FOR, list(self.waiting_for.iter().map(WaitCondition::to_string).collect())),
            (STARTED, self.started.then(|| "true".to_owned())),
            (CHECK, self.check_passed.then(|| "passed".to_owned())),
            (EXIT_CODE, self.exit_code.map(|code| code.to_string())),
            (
                STOPPING,
                match self.stopping {
                    PreStopState::NotBegun => None,
                    PreStopState::Begun => Some("true".to_owned()),
                    PreStopState::Finished => Some("over".to_owned()),
                },
            ),
            (TICKET, self.ticket.clone()),
            (PROCESS, self.process.map(|process| format!("{}:{}", process.pid, process.start_ticks))),
            (WATCHING, list(self.watched_containers.clone())),
        ];
        annotations::write(&lines.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    }

    /// Returns the text of the report file, padded to [`RESERVED_SIZE`] bytes to overwrite the reserved file in place.
    pub fn to_padded_text(&self) -> String {
        let mut text = self.to_text();
        let frame = "\n=\"\"".len() + PADDING.len();
        if let Some(room) = RESERVED_SIZE.checked_sub(text.len() + frame) {
            text.push_str(&format!("\n{PADDING}=\"{}\"", "-".repeat(room)));
        }
        text
    }

    /// Parses a report. Skips invalid values. Fails if the file is incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Report, Torn> {
        let found = annotations::read(bytes, |_| true)?;
        let get = |key: &str| found.get(key).map(String::as_str);
        let is = |key: &str, value: &str| get(key) == Some(value);
        Ok(Report {
            sandbox: get(SANDBOX).and_then(|v| v.parse().ok()),
            epoch: get(EPOCH).unwrap_or_default().to_owned(),
            agent_version: get(AGENT).unwrap_or_default().to_owned(),
            gate: get(GATE).and_then(|v| v.parse().ok()),
            waiting_for: get(WAITING_FOR).unwrap_or_default().split(',').filter_map(|item| item.parse().ok()).collect(),
            started: is(STARTED, "true"),
            check_passed: is(CHECK, "passed"),
            exit_code: get(EXIT_CODE).and_then(|v| v.parse().ok()),
            stopping: match get(STOPPING) {
                Some("true") => PreStopState::Begun,
                Some("over") => PreStopState::Finished,
                _ => PreStopState::NotBegun,
            },
            ticket: get(TICKET).filter(|ticket| is_plain_word(ticket)).map(str::to_owned),
            process: get(PROCESS).and_then(|text| {
                let (pid, start) = text.split_once(':')?;
                Some(Process { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? })
            }),
            watched_containers: {
                let names = get(WATCHING).unwrap_or_default().split(',');
                names.filter(|name| is_container_name(name)).map(str::to_owned).collect()
            },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_survives_a_round_trip() {
        let full = Report {
            sandbox: Some("3f2a9c1e-4097-1a0c5f3b".parse().unwrap()),
            epoch: "e1".to_owned(),
            agent_version: "0.1.0".to_owned(),
            gate: Some(GateState::Waiting),
            waiting_for: vec!["db=Ready".parse().unwrap(), "migrate=Completed".parse().unwrap()],
            started: true,
            check_passed: true,
            exit_code: Some(-1),
            stopping: PreStopState::Finished,
            ticket: Some("3f2a9c1e".to_owned()),
            process: Some(Process { pid: 1, start_ticks: 4711 }),
            watched_containers: vec!["app".to_owned()],
        };
        assert_eq!(Report::parse(full.to_text().as_bytes()), Ok(full));
        assert_eq!(Report::parse(Report::default().to_text().as_bytes()), Ok(Report::default()));
    }

    #[test]
    fn padded_report_has_the_reserved_size_and_same_content() {
        let report = Report { epoch: "e1".to_owned(), started: true, ..Report::default() };
        assert_eq!(report.to_padded_text().len(), RESERVED_SIZE);
        assert_eq!(Report::parse(report.to_padded_text().as_bytes()), Ok(report));
    }

    #[test]
    fn invalid_values_are_skipped() {
        let report =
            Report::parse(b"check=\"yes\"\nexit-code=\"x\"\ngate=\"open\"\nstarted=\"1\"\nwaiting-for=\"A,b\"")
                .unwrap();
        assert_eq!(report, Report { waiting_for: vec!["b".parse().unwrap()], ..Report::default() });
        assert!(Report::parse(b"started").is_err());
    }
}

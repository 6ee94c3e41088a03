//! Keeping the controller told: the file `report` in the container's own folder.

use podgate::core::names;
use podgate::core::report::{Gate, Report};
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::View;
use podgate::core::until::Until;
use podgate::edge::files::{open_folder, overwrite, read_beneath, replace_by};
use podgate::edge::process;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Writes the report whenever what it says has changed.
#[derive(Debug)]
pub(crate) struct Reporter {
    folder: PathBuf,
    container: Option<String>,
    current: Report,
    written: Option<(Report, u64)>,
    /// Why the last attempt to write failed.
    pub(crate) error: Option<String>,
}

impl Reporter {
    /// Of a postStart hook: the container runs.
    pub(crate) fn of_hook(folder: PathBuf, container: &str, sandbox: SandboxId, untils: &[Until]) -> Reporter {
        let own = Report { started: true, ..new(sandbox, untils) };
        Reporter { folder, container: Some(container.to_owned()), current: own, written: None, error: None }
    }

    /// Of a gate, which is closed.
    pub(crate) fn of_gate(folder: PathBuf, sandbox: SandboxId, untils: &[Until], ticket: &str) -> Reporter {
        let own = Report {
            gate: Some(Gate::Waiting),
            ticket: Some(ticket.to_owned()),
            process: process::own(),
            ..new(sandbox, untils)
        };
        Reporter { folder, container: None, current: own, written: None, error: None }
    }

    /// Tells that the gate is closed, over whatever an earlier incarnation has left.
    pub(crate) fn begin(&mut self, view: &View) {
        self.follow(view);
        self.put(0);
    }

    /// Tells the controller that wrote `snapshot` where this container stands, and whether its checks have passed.
    pub(crate) fn tell(&mut self, snapshot: &Snapshot, check_passed: bool) {
        self.current.epoch.clone_from(&snapshot.epoch);
        self.current.check_passed = check_passed;
        // Who runs this has not ended: where the controller has taken an earlier incarnation's end for ours, a new report,
        // though it says the same, puts it right.
        let own = self.container.as_ref().and_then(|name| snapshot.states.get(name));
        let occasion = if own.is_some_and(|state| state.has_ended()) { snapshot.revision } else { 0 };
        let told = self
            .written
            .as_ref()
            .is_some_and(|(report, at)| *report == self.current && (*at == occasion || occasion == 0));
        if !told || self.error.is_some() {
            self.put(occasion);
        }
    }

    /// Tells that the gate has opened, by what it has [followed](Reporter::follow), and the command is about to run; the agent goes
    /// on to watch `watching`. Said without a controller too: `podgate opened` reads it.
    pub(crate) fn opened(&mut self, watching: Vec<String>) {
        (self.current.gate, self.current.started, self.current.watching) = (Some(Gate::Opened), true, watching);
        self.current.waiting_for.clear();
        // What passed before the command ran says nothing of the command.
        self.current.check_passed = false;
        self.put(0);
    }

    /// Tells again what was told, if another controller has begun since.
    pub(crate) fn renew(&mut self, view: &View, check_passed: bool) {
        self.follow(view);
        self.current.check_passed = check_passed;
        if self.written.as_ref().is_none_or(|(report, _)| *report != self.current) {
            self.put(0);
        }
    }

    /// Tells that the command has exited.
    pub(crate) fn ended(&mut self, view: &View, code: i32) {
        self.current.exit_code = Some(code);
        self.follow(view);
        self.put(0);
    }

    /// What is told next is told to the controller that speaks here.
    pub(crate) fn follow(&mut self, view: &View) {
        if let View::Word(snapshot, _) = view {
            self.current.epoch.clone_from(&snapshot.epoch);
        }
    }

    fn put(&mut self, occasion: u64) {
        match write(&self.folder, &format!(".{}.tmp", names::REPORT_FILE), &self.current) {
            Ok(()) => {
                self.written = Some((self.current.clone(), occasion));
                self.error = None;
            }
            Err(error) => {
                let error = format!("{}: {error}", self.folder.display());
                // Where no sidecar has ever spoken there need be no folder either.
                if self.error.is_none() && !self.current.epoch.is_empty() {
                    warn!(error, "can't report to the controller");
                }
                self.error = Some(error);
            }
        }
    }
}

/// A report of this agent's on a container that waits for `untils`.
pub(crate) fn new(sandbox: SandboxId, untils: &[Until]) -> Report {
    let agent = env!("CARGO_PKG_VERSION").to_owned();
    Report { sandbox: Some(sandbox), agent, waiting_for: untils.to_vec(), ..Report::default() }
}

/// What lies in the container's own folder `folder`.
pub(crate) fn read(folder: &Path) -> io::Result<Report> {
    let folder = open_folder(folder)?;
    let bytes = read_beneath(folder.as_fd(), Path::new(names::REPORT_FILE), names::BOARD_FILE_MAX)?;
    Report::read(&bytes).map_err(|torn| io::Error::new(ErrorKind::InvalidData, torn.to_string()))
}

/// Puts `report` into the container's own folder, by way of the file `temporary`: a preStop hook, which may write while the
/// container's own agent does, has one of its own.
pub(crate) fn write(folder: &Path, temporary: &str, report: &Report) -> io::Result<()> {
    match replace_by(folder, temporary, names::REPORT_FILE, report.write().as_bytes(), 0o644) {
        // A neighbour has filled the volume; the page that the controller has reserved here is left.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            overwrite(folder, names::REPORT_FILE, report.write_filled().as_bytes())
        }
        other => other,
    }
}

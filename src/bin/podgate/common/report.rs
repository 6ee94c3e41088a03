//! The agent's report to the sidecar: the file `report` in the container's own directory.

use podgate::core::names;
use podgate::core::report::{GateState, Report};
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::PodView;
use podgate::core::state::State;
use podgate::core::until::WaitCondition;
use podgate::edge::files::{is_full, open_directory_following_links, read_beneath, replace_or_overwrite, size};
use podgate::edge::process::time_since_boot;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Writes the container's report, and writes it again whenever its content has changed.
pub(crate) struct Reporter {
    directory: PathBuf,
    container: Option<String>,
    current: Report,
    last_written: Option<(Report, u64)>,
    /// Error of the last attempt to write.
    pub(crate) error: Option<String>,
}

impl Reporter {
    /// Creates a reporter. `container` is the container's name; `None` for a gate.
    pub(crate) fn new(directory: PathBuf, container: Option<String>, current: Report) -> Reporter {
        Reporter { directory, container, current, last_written: None, error: None }
    }

    /// Reports that the gate has opened. `watched_as_parent` has the containers that the agent keeps watching as the
    /// command's parent; `None` if the agent becomes the command. The report is written even without a sidecar, because
    /// `podgate opened` reads the report.
    pub(crate) fn report_opened(&mut self, watched_as_parent: Option<Vec<String>>) {
        (self.current.gate, self.current.started) = (Some(GateState::Opened), true);
        self.current.is_parent = watched_as_parent.is_some();
        self.current.watched_containers = watched_as_parent.unwrap_or_default();
        self.current.opened_at = u64::try_from(time_since_boot().as_millis()).ok();
        self.current.waiting_for.clear();
        // Checks that passed before the command ran don't prove that the command is ready.
        self.current.check_passed = false;
        self.write(0);
    }

    /// Reports the result of the checks to the sidecar run that published `view`. Skips a write that is not needed.
    pub(crate) fn refresh(&mut self, view: &PodView, check_passed: bool) {
        self.set_epoch(view);
        self.current.check_passed = check_passed;
        // The sidecar may attribute an earlier incarnation's end to this one. Write the report again to correct that.
        let state = |snapshot: &Snapshot| snapshot.states.get(self.container.as_ref()?).copied();
        let has_ended = |snapshot: &&Snapshot| state(snapshot).is_some_and(State::has_ended);
        let occasion = view.chosen_snapshot().filter(has_ended).map_or(0, |snapshot| snapshot.revision);
        let is_same = |(report, at): &(Report, u64)| *report == self.current && (*at == occasion || occasion == 0);
        if self.error.is_some() || !self.last_written.as_ref().is_some_and(is_same) {
            self.write(occasion);
        }
    }

    pub(crate) fn report_exit(&mut self, view: &PodView, code: i32) {
        self.current.exit_code = Some(code);
        self.set_epoch(view);
        self.write(0);
    }

    /// Addresses the next report to the sidecar run that published `view`.
    pub(crate) fn set_epoch(&mut self, view: &PodView) {
        if let Some(snapshot) = view.chosen_snapshot() {
            self.current.epoch.clone_from(&snapshot.epoch);
        }
    }

    fn write(&mut self, occasion: u64) {
        match write_report(&self.directory, &format!(".{}.tmp", names::REPORT_FILE), &self.current) {
            Ok(()) => {
                self.last_written = Some((self.current.clone(), occasion));
                self.error = None;
            }
            Err(error) => {
                let fix = match is_full(&error) {
                    true => "a container has filled the volume podgate-self; delete files in the container's directory",
                    false => "mount this container's own directory there",
                };
                let error = format!("{}: {error}; {fix}", self.directory.display());
                // Warn only if there is a sidecar: without one, the directory may be missing too.
                if self.error.is_none() && !self.current.epoch.is_empty() {
                    warn!(error, "cannot report to the sidecar");
                }
                self.error = Some(error);
            }
        }
    }
}

pub(crate) fn base_report(sandbox: SandboxId, conditions: &[WaitCondition]) -> Report {
    let agent = env!("CARGO_PKG_VERSION").to_owned();
    Report { sandbox: Some(sandbox), agent_version: agent, waiting_for: conditions.to_vec(), ..Report::default() }
}

pub(crate) fn read_report(directory: &Path) -> io::Result<Report> {
    let directory = open_directory_following_links(directory)?;
    let bytes = read_beneath(directory.as_fd(), Path::new(names::REPORT_FILE), names::BOARD_FILE_MAX)?;
    Report::parse(&bytes).map_err(|torn| io::Error::new(ErrorKind::InvalidData, torn.to_string()))
}

/// Writes `report` into the container's own directory through the file `temporary`. A preStop hook uses another
/// temporary file, because the hook may write at the same time as the container's agent.
///
/// The file never becomes smaller, so the space that the sidecar has reserved remains. The next report can therefore
/// overwrite the file even if another container has filled the volume.
pub(crate) fn write_report(directory: &Path, temporary: &str, report: &Report) -> io::Result<()> {
    let text = report.to_padded_text(size(directory, names::REPORT_FILE, names::BOARD_FILE_MAX));
    replace_or_overwrite(directory, temporary, names::REPORT_FILE, text.as_bytes(), 0o644).map(drop)
}

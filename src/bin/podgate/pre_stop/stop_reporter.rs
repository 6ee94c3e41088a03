//! The preStop hook's part of the container's report: the key `stopping`.

use crate::common::report;
use podgate::core::names;
use podgate::core::report::{PreStopState, Process, Report};
use podgate::core::sandbox::SandboxId;
use podgate::core::sources::PodView;
use podgate::edge::process;
use std::path::PathBuf;
use tracing::warn;

/// Writer of `stopping` in the container's report. Preserves the other keys, which the command's parent may keep
/// updating.
pub(crate) struct StopReporter {
    directory: PathBuf,
    sandbox: SandboxId,
    /// Author (ticket, process) of the report at the hook's start. The hook changes no report of a later incarnation.
    author: Option<(Option<String>, Option<Process>)>,
    has_failed: bool,
}

impl StopReporter {
    pub(crate) fn new(directory: PathBuf, sandbox: SandboxId) -> StopReporter {
        StopReporter { directory, sandbox, author: None, has_failed: false }
    }

    /// Reports that the hook has started. Call this after each read of the board: the epoch or the report may have
    /// changed.
    pub(crate) fn report_stopping(&mut self, view: &PodView) {
        // Replace a report from another sandbox, and the report of a probe in an earlier run of the container.
        let is_of_this_run = |report: &Report| {
            let is_alive = report.ticket.is_some() || report.process.is_none_or(process::is_alive);
            report.is_from_sandbox(&self.sandbox) && is_alive
        };
        let found = report::read_report(&self.directory).ok().filter(is_of_this_run);
        // The container runs, because its preStop hook runs.
        let fresh = || Report { started: true, ..report::base_report(self.sandbox.clone(), &[]) };
        let now = found.clone().unwrap_or_else(fresh);
        if *self.author.get_or_insert_with(|| author(&now)) != author(&now) {
            return;
        }
        let epoch = view.chosen_snapshot().map_or(&now.epoch, |snapshot| &snapshot.epoch).clone();
        let wanted = Report { stopping: PreStopState::Begun, epoch, ..now };
        if found.as_ref() != Some(&wanted) {
            self.write(&wanted);
        }
    }

    /// Reports that the hook has finished, unless the report belongs to another incarnation.
    pub(crate) fn report_stopped(&mut self) {
        let Ok(report) = report::read_report(&self.directory) else { return };
        let marked = report.stopping == PreStopState::Begun || report.ticket.is_some();
        if marked && report.is_from_sandbox(&self.sandbox) && self.author == Some(author(&report)) {
            self.write(&Report { stopping: PreStopState::Finished, ..report });
        }
    }

    fn write(&mut self, report: &Report) {
        let temporary = format!(".{}-stop.tmp", names::REPORT_FILE);
        let written = report::write_report(&self.directory, &temporary, report);
        let had_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        if let (Err(error), false) = (written, had_failed) {
            warn!(%error, directory = %self.directory.display(), "cannot report that this container is stopping");
        }
    }
}

fn author(report: &Report) -> (Option<String>, Option<Process>) {
    (report.ticket.clone(), report.process)
}

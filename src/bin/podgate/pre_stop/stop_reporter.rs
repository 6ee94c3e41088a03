//! What a preStop hook says: `stopping`, in the report that the container's own agent has written.

use crate::gate::report;
use podgate::core::names;
use podgate::core::report::{PreStopState, Process, Report};
use podgate::core::sandbox::SandboxId;
use podgate::core::sources::PodView;
use std::path::PathBuf;
use tracing::warn;

/// Keeps `stopping` in the container's report, and all else there as it is: an agent that stays as the command's parent goes on
/// to write it.
#[derive(Debug)]
pub(crate) struct StopReporter {
    folder: PathBuf,
    sandbox: SandboxId,
    /// Whose report it was when the hook began: an incarnation that came later speaks for itself.
    author: Option<(Option<String>, Option<Process>)>,
    has_failed: bool,
}

impl StopReporter {
    pub(crate) fn new(folder: PathBuf, sandbox: SandboxId) -> StopReporter {
        StopReporter { folder, sandbox, author: None, has_failed: false }
    }

    /// The hook has begun. To be said again after each look at the board: its epoch may have changed, or another has written
    /// the report.
    pub(crate) fn report_stopping(&mut self, view: &PodView) {
        let found = report::read_report(&self.folder).ok().filter(|report| report.is_from_sandbox(&self.sandbox));
        // What has been left from another sandbox says nothing of this one, where the container runs too.
        let fresh = || Report { started: true, ..report::new_report(self.sandbox.clone(), &[]) };
        let now = found.clone().unwrap_or_else(fresh);
        if *self.author.get_or_insert_with(|| author(&now)) != author(&now) {
            return;
        }
        let epoch = match view {
            PodView::Snapshot(snapshot, _) => snapshot.epoch.clone(),
            PodView::NoSnapshot { .. } => now.epoch.clone(),
        };
        let wanted = Report { stopping: PreStopState::Begun, epoch, ..now };
        if found.as_ref() != Some(&wanted) {
            self.write(&wanted);
        }
    }

    /// The hook is over, unless what lies there is another incarnation's.
    pub(crate) fn report_stopped(&mut self) {
        let Ok(report) = report::read_report(&self.folder) else { return };
        let marked = report.stopping == PreStopState::Begun || report.ticket.is_some();
        if marked && report.is_from_sandbox(&self.sandbox) && self.author == Some(author(&report)) {
            self.write(&Report { stopping: PreStopState::Finished, ..report });
        }
    }

    fn write(&mut self, report: &Report) {
        let temporary = format!(".{}-stop.tmp", names::REPORT_FILE);
        match report::write_report(&self.folder, &temporary, report) {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(%error, folder = %self.folder.display(), "can't report that this container stops");
                }
            }
        }
    }
}

fn author(report: &Report) -> (Option<String>, Option<Process>) {
    (report.ticket.clone(), report.process)
}

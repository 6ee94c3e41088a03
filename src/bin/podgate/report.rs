//! Keeping the controller told: the file `report` in the container's own folder.

use podgate::core::names;
use podgate::core::report::Report;
use podgate::core::sandbox::SandboxId;
use podgate::core::snapshot::Snapshot;
use podgate::core::until::Until;
use podgate::edge::files::{overwrite, replace};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use tracing::warn;

/// Writes the report whenever what it says has changed.
#[derive(Debug)]
pub(crate) struct Reporter {
    folder: PathBuf,
    container: String,
    current: Report,
    written: Option<(Report, u64)>,
    /// Why the last attempt to write failed.
    pub(crate) error: Option<String>,
}

impl Reporter {
    pub(crate) fn new(folder: PathBuf, container: &str, sandbox: SandboxId, untils: &[Until]) -> Reporter {
        let current = Report {
            sandbox: Some(sandbox),
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            waiting_for: untils.to_vec(),
            started: true,
            ..Report::default()
        };
        Reporter { folder, container: container.to_owned(), current, written: None, error: None }
    }

    /// Says that this container runs, and whether its checks have passed, to the controller that wrote `snapshot`.
    pub(crate) fn tell(&mut self, snapshot: &Snapshot, check_passed: bool) {
        self.current.epoch.clone_from(&snapshot.epoch);
        self.current.check_passed = check_passed;
        // Who runs this has not ended: where the controller has taken an earlier incarnation's end for ours, a new report,
        // though it says the same, puts it right.
        let taken_for_dead = snapshot.states.get(&self.container).is_some_and(|state| state.has_ended());
        let occasion = if taken_for_dead { snapshot.revision } else { 0 };
        let told = self
            .written
            .as_ref()
            .is_some_and(|(report, at)| *report == self.current && (*at == occasion || occasion == 0));
        if told && self.error.is_none() {
            return;
        }
        match self.write() {
            Ok(()) => {
                self.written = Some((self.current.clone(), occasion));
                self.error = None;
            }
            Err(error) => {
                let error = format!("{}: {error}", self.folder.display());
                if self.error.is_none() {
                    warn!(error, "can't report to the controller");
                }
                self.error = Some(error);
            }
        }
    }

    fn write(&self) -> io::Result<()> {
        match replace(&self.folder, names::REPORT_FILE, self.current.write().as_bytes(), 0o644) {
            // A neighbour has filled the volume; the page that the controller has reserved here is left.
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                overwrite(&self.folder, names::REPORT_FILE, self.current.write_filled().as_bytes())
            }
            other => other,
        }
    }
}

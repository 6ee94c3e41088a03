//! Writes the board: the annotations file, the bell and the lock.

use crate::clock::now;
use podgate::core::annotations::{self, Annotations};
use podgate::core::names;
use podgate::edge::bell::Ringer;
use podgate::edge::{files, lock, source};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

#[derive(Debug)]
pub(crate) struct Board {
    folder: PathBuf,
    ringer: Ringer,
    lock: Option<lock::HeldLock>,
    /// True after the sidecar has logged that it can't create the bell. Prevents repeated warnings.
    is_bell_broken: bool,
    /// Annotations that could not be written, and the time of the next attempt.
    unwritten: Option<(Annotations, Instant)>,
}

/// Pause before the next attempt to write the board.
const RETRY_DELAY: Duration = Duration::from_millis(100);

impl Board {
    pub(crate) fn new(folder: &Path) -> Board {
        let ringer = Ringer::new(folder, names::BELL_FILE);
        Board { folder: folder.to_owned(), ringer, lock: None, is_bell_broken: false, unwritten: None }
    }

    /// Returns the annotations of an earlier epoch; none if the board has no readable annotations.
    pub(crate) fn previous_annotations(&self) -> Annotations {
        source::read_board_annotations(&self.folder).unwrap_or_default()
    }

    /// Writes `annotations`, then rings the bell. If the write fails, keeps `annotations` for [`retry`](Board::retry).
    /// If creating the bell fails, agents use inotify.
    pub(crate) fn publish(&mut self, annotations: Annotations) {
        let text = annotations::write(&annotations);
        let written = files::replace(&self.folder, names::ANNOTATIONS_FILE, text.as_bytes(), 0o444);
        if written.is_ok()
            && let Err(error) = self.ringer.ring()
            && !std::mem::replace(&mut self.is_bell_broken, true)
        {
            warn!(%error, "can't create the bell, a FIFO on the board; agents use inotify instead");
        }
        let unwritten = written.is_err().then(|| (annotations, now() + RETRY_DELAY));
        let before = std::mem::replace(&mut self.unwritten, unwritten);
        match written {
            Err(error) if before.is_none() => {
                error!(%error, board = %self.folder.display(), "can't write the board; retrying");
            }
            Ok(()) if before.is_some() => info!("the board can be written again"),
            _ => {}
        }
    }

    /// Returns the time for the next [`retry`](Board::retry); `None` if all annotations are written.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.unwritten.as_ref().map(|(_, at)| *at)
    }

    pub(crate) fn retry(&mut self) {
        if let Some((annotations, _)) = self.unwritten.clone() {
            self.publish(annotations);
        }
    }

    /// Takes the lock that the sidecar's hook waits for. Returns false while an earlier sidecar process holds the lock.
    pub(crate) fn try_lock(&mut self) -> Result<bool, String> {
        if self.lock.is_none() {
            let path = self.folder.join(names::CONTROLLER_FILE);
            let hint = "the sidecar needs open-file-description locks, fcntl F_OFD_SETLK";
            self.lock = lock::take(&path).map_err(|error| format!("can't lock {}: {error}; {hint}", path.display()))?;
        }
        Ok(self.lock.is_some())
    }

    /// Returns true if the sidecar's hook has succeeded in this epoch.
    pub(crate) fn has_hook_succeeded(&self, epoch: &str) -> bool {
        files::read_trusted(&self.folder.join(names::HOOKED_FILE), 64).is_ok_and(|found| found == epoch.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_is_written_later_after_a_failure() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("board");
        let mut board = Board::new(&folder);
        board.publish([("a".to_owned(), "1".to_owned())].into());
        assert!(board.retry_at().is_some());
        std::fs::create_dir(&folder).unwrap();
        board.retry();
        assert_eq!(board.retry_at(), None);
        assert_eq!(std::fs::read_to_string(folder.join("annotations")).unwrap(), "a=\"1\"");
    }
}

//! Writes the board: the agent, the annotations file, the bell and the lock. Only one sidecar of a Pod may do so.
//!
//! Other containers can open these files, and keep them open after the sidecar has replaced them.

use crate::clock::now;
use crate::failure::Result;
use podgate::core::annotations::{self, Annotations};
use podgate::core::names;
use podgate::edge::bell::Ringer;
use podgate::edge::{files, lock, source};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

pub(crate) struct Board {
    directory: PathBuf,
    ringer: Ringer,
    lock: Option<File>,
    /// The current annotations file, kept open. While it is open, the kernel denies write leases on the file to other
    /// containers. Such a lease would delay the readers of the file.
    open_annotations: Option<File>,
    /// The agent's file, kept open to prevent write leases, which would delay the file's readers.
    open_agent: Option<File>,
    /// True after the sidecar has logged that it cannot create the bell. Prevents repeated warnings.
    is_bell_broken: bool,
    /// Time of the next attempt to write the annotations; `None` if they are written.
    pub(crate) retry_at: Option<Instant>,
}

/// Extra space in the annotations file for longer states, in bytes.
const HEADROOM: usize = 1024;
const RETRY_DELAY: Duration = Duration::from_millis(100);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);
/// Time after which a wait for a lock or for another container's lease is logged.
const WARNING_DELAY: Duration = Duration::from_secs(1);

impl Board {
    pub(crate) fn new(directory: &Path) -> Board {
        Board {
            directory: directory.to_owned(),
            ringer: Ringer::new(directory, names::BELL_FILE),
            lock: None,
            open_annotations: None,
            open_agent: None,
            is_bell_broken: false,
            retry_at: None,
        }
    }

    /// Returns the annotations of an earlier epoch; none if the board has no readable annotations. Without these
    /// annotations, the revision would decrease, and ends of containers that started in that epoch would be ignored. If
    /// another container has a lease on the file, this function waits for the end of the lease, usually 45 s.
    pub(crate) async fn previous_annotations(&self) -> Annotations {
        let path = self.directory.join(names::ANNOTATIONS_FILE);
        let (sender, mut opened) = tokio::sync::oneshot::channel();
        // Open the file in blocking mode: while this call waits, the kernel denies new leases on the file. With
        // repeated attempts instead, a new lease could delay each attempt.
        let open = {
            let (path, flags) = (path.clone(), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC);
            move || _ = sender.send(rustix::fs::open(&path, flags, Mode::empty()))
        };
        // If the thread cannot be created, the channel closes at once, which ends the wait below.
        let _ = std::thread::Builder::new().spawn(open);
        let _open = match tokio::time::timeout(WARNING_DELAY, &mut opened).await {
            Ok(opened) => opened,
            Err(_) => {
                warn!(path = %path.display(), "waiting: another container has a lease on this file; the lease ends on its own");
                opened.await
            }
        };
        source::read_board_annotations(&self.directory).unwrap_or_default()
    }

    /// Installs the agent from the file `from`. Keeps an existing file with the same content: a replaced file uses
    /// memory while a container has it open, so repeated installations could fill the volume.
    pub(crate) fn install_agent(&mut self, from: &Path) -> io::Result<()> {
        let (program, bin) = (std::fs::read(from)?, self.directory.join(names::BIN_SUBDIR));
        let existing = || -> io::Result<Option<File>> {
            let (bin, name) = (files::open_directory_following_links(&bin)?, Path::new(names::AGENT_FILE));
            let file = files::open_file_beneath(bin.as_fd(), name, OFlags::RDONLY)?;
            Ok((files::read_beneath(bin.as_fd(), name, program.len())? == program).then_some(file))
        };
        self.open_agent = match existing() {
            Ok(Some(file)) => Some(file),
            _ => Some(files::install(&program, &bin, names::AGENT_FILE)?),
        };
        Ok(())
    }

    /// Writes `annotations`, then rings the bell. If the write fails, sets `retry_at`, and the caller must write again.
    /// If creating the bell fails, agents use inotify.
    pub(crate) fn write(&mut self, annotations: &Annotations) {
        // Old files that containers keep open may fill the volume. With the padding, podgate can then overwrite the
        // last file in place, even with longer states.
        let text = annotations::write(annotations);
        let size = (text.len() + HEADROOM).next_multiple_of(annotations::PAGE_SIZE);
        let size = size.max(files::size(&self.directory, names::ANNOTATIONS_FILE, names::BOARD_FILE_MAX));
        let text = annotations::pad_with_hash(text, size.min(names::BOARD_FILE_MAX));
        let temporary = format!(".{}.tmp", names::ANNOTATIONS_FILE);
        let written =
            files::replace_or_overwrite(&self.directory, &temporary, names::ANNOTATIONS_FILE, text.as_bytes(), 0o644);
        if written.is_ok()
            && let Err(error) = self.ringer.ring()
            && !std::mem::replace(&mut self.is_bell_broken, true)
        {
            warn!(%error, "cannot create the bell, a FIFO on the board; agents use inotify instead");
        }
        let retry_at = written.is_err().then(|| now() + RETRY_DELAY);
        let is_retry = std::mem::replace(&mut self.retry_at, retry_at).is_some();
        match written {
            Err(error) if !is_retry => {
                let fix = match files::is_full(&error) {
                    true => "a container keeps many old files open: restart it",
                    false => "mount the volume podgate-board writable in the sidecar",
                };
                error!(%error, board = %self.directory.display(), "cannot write the board, so gates stay closed; retrying; {fix}");
            }
            Ok(file) => {
                self.open_annotations = file.or(self.open_annotations.take());
                if is_retry {
                    info!("the board can be written again");
                }
            }
            Err(_) => {}
        }
    }

    /// Takes the lock on the board. The lock shows the agents and the sidecar's hook that a sidecar runs and has set up
    /// the board.
    pub(crate) async fn mark_set_up(&mut self) -> Result<()> {
        let path = self.directory.join(names::CONTROLLER_LOCK_FILE);
        let hint = "the sidecar needs open-file-description locks, fcntl F_OFD_SETLK";
        let take = || {
            lock::take_over(&self.directory, names::CONTROLLER_LOCK_FILE)
                .map_err(|error| format!("cannot lock {}: {error}; {hint}", path.display()).into())
        };
        let why =
            "the board's file system cannot create unnamed files (O_TMPFILE), and a container has locked this file";
        self.lock = Some(wait_for_lock(&path, why, take).await?);
        Ok(())
    }

    /// Returns true if the sidecar's hook has succeeded in this epoch.
    pub(crate) fn has_hook_succeeded(&self, epoch: &str) -> bool {
        files::read_following_links(&self.directory.join(names::SIDECAR_HOOK_SUCCESS_FILE), 64)
            .is_ok_and(|found| found == epoch.as_bytes())
    }
}

/// Waits until no other sidecar of the Pod runs, and returns the lock that keeps other sidecars waiting. Two sidecars
/// can run at once if the runtime reports a container's end too early, or if a Pod written by hand has two sidecars.
/// Both would write the board and open gates.
///
/// The lock is on the directory `self_dir` itself. Other containers mount only directories beneath it, so they cannot
/// take this lock. A file of the board is unsuitable, because other containers can take read locks on such a file.
pub(crate) async fn exclude_other_sidecars(self_dir: &Path) -> Result<File> {
    let why = "another sidecar of this Pod runs, or a container mounts this whole volume; containers need a subPath";
    let error = |error| format!("cannot lock --self {}: {error}; mount an emptyDir there", self_dir.display());
    let directory = File::open(self_dir).map_err(error)?;
    let try_lock = || match directory.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(failed)) => Err(error(failed).into()),
    };
    wait_for_lock(self_dir, why, try_lock).await?;
    Ok(directory)
}

/// Calls `try_lock` repeatedly, and returns the lock as soon as `try_lock` returns one. Logs `why`, the reason for the
/// wait, after `WARNING_DELAY`.
async fn wait_for_lock<T>(path: &Path, why: &str, mut try_lock: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let (since, mut has_warned) = (now(), false);
    loop {
        if let Some(lock) = try_lock()? {
            return Ok(lock);
        }
        if now() - since >= WARNING_DELAY && !std::mem::replace(&mut has_warned, true) {
            warn!(path = %path.display(), "waiting for a lock: {why}");
        }
        tokio::time::sleep(LOCK_RETRY_DELAY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_is_written_later_after_a_failure() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("board");
        let mut board = Board::new(&directory);
        let annotations = [("a".to_owned(), "1".to_owned())].into();
        board.write(&annotations);
        assert!(board.retry_at.is_some());
        std::fs::create_dir(&directory).unwrap();
        board.write(&annotations);
        assert_eq!(board.retry_at, None);
        let text = std::fs::read_to_string(directory.join("annotations")).unwrap();
        assert!(text.starts_with("a=\"1\"\n~=") && text.len() == annotations::PAGE_SIZE, "{text}");
    }
}

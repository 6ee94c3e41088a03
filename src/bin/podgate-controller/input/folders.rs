//! Creates the containers' folders and watches them with inotify. The content of the folders is not trusted.

use crate::clock::now;
use inotify::{Inotify, WatchMask};
use podgate::core::names;
use podgate::core::report::Report;
use podgate::edge::{files, tether};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::{debug, warn};

/// Polling interval when inotify is not available.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest pause between two checks. The pause limits the sidecar's CPU use while a container writes continuously.
const MAX_GAP: Duration = Duration::from_millis(200);
/// Time without a check after which the next event is handled without a pause.
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// Delays between an event and the further checks that follow. inotify reports a close slightly before the kernel
/// releases the lock. An exiting process releases its ports and its tether in no fixed order.
const RECHECK_DELAYS: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4), Duration::from_millis(8)];

/// Tracks the folders and the last content of each folder.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    inotify: Option<AsyncFd<Inotify>>,
    last_seen: BTreeMap<String, LastSeen>,
    gap: Duration,
    last_check: Option<Instant>,
    /// Time of the last event, and the number of checks since that event.
    last_event: Option<(Instant, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LastSeen {
    stamp: Option<Stamp>,
    is_tether_held: bool,
    is_checked: bool,
}

/// Identifies a file by inode and ctime (seconds, nanoseconds). A replaced file differs in at least one of these
/// values.
type Stamp = (u64, i64, i64);

#[derive(Debug, PartialEq)]
pub(crate) struct FolderChange {
    pub(crate) container: String,
    pub(crate) report: Option<Report>,
    /// True if the report file was replaced since the last call.
    pub(crate) is_rewritten: bool,
    pub(crate) is_tether_held: bool,
    /// True if no further check follows for the event that triggered this check.
    pub(crate) is_last_check: bool,
}

impl Folders {
    /// Creates the inotify instance. Must be called inside the tokio runtime.
    pub(crate) fn new(root: &Path, podinfo: &Path) -> Folders {
        #[allow(deprecated, reason = "sound here: an Inotify owns its descriptor and never exposes it")]
        let register = |inotify| AsyncFd::with_interest(inotify, Interest::READABLE);
        let inotify: io::Result<_> = Inotify::init().and_then(register);
        if let Err(error) = &inotify {
            warn!(%error, "no inotify; polling the folders every 100 ms instead");
        }
        let mut folders = Folders {
            root: root.to_owned(),
            inotify: inotify.ok(),
            last_seen: BTreeMap::new(),
            gap: Duration::ZERO,
            last_check: None,
            last_event: None,
        };
        folders.watch(podinfo);
        folders
    }

    /// Creates and watches a folder for each container that has no folder yet.
    ///
    /// # Errors
    /// If a folder can't be created. The container of that folder can't report.
    pub(crate) fn create<'a>(&mut self, containers: impl Iterator<Item = &'a str>) -> io::Result<()> {
        for name in containers {
            if self.last_seen.contains_key(name) {
                continue;
            }
            let path = self.root.join(name);
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o777)) {
                // The container may run with any user id. Only that container mounts this folder. chmod ignores the
                // umask.
                Ok(()) => rustix::fs::chmod(&path, Mode::from_raw_mode(0o777))?,
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            reserve_files(&path)?;
            self.watch(&path);
            self.last_seen.insert(name.to_owned(), LastSeen::default());
        }
        Ok(())
    }

    fn watch(&mut self, path: &Path) {
        let Some(inotify) = &mut self.inotify else { return };
        // The kernel sends CLOSE_WRITE for the last close of a tether too, even if the process was killed.
        let mask = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE | WatchMask::ONLYDIR;
        if let Err(error) = inotify.get_mut().watches().add(path, mask) {
            debug!(%error, path = %path.display(), "can't watch a folder");
        }
    }

    /// Waits until a report may have been written or a tether may have been released. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        if let Some((at, rounds)) = self.last_event
            && let Some(pause) = RECHECK_DELAYS.get(rounds)
        {
            tokio::time::sleep_until((at + *pause).into()).await;
            self.last_event = Some((at, rounds + 1));
            return;
        }
        self.last_event = None;
        if let Some(last) = self.last_check {
            if last.elapsed() > QUIET_PERIOD {
                self.gap = Duration::ZERO;
            }
            tokio::time::sleep_until((last + self.gap).into()).await;
        }
        while let Some(inotify) = &mut self.inotify {
            let mut buffer = [0; 4096];
            match inotify.readable_mut().await {
                Ok(mut guard) => match guard.get_inner_mut().read_events(&mut buffer).map_or(0, Iterator::count) {
                    0 => guard.clear_ready(),
                    // An event only triggers a check, so a queue overflow does no harm. Events left in the queue
                    // trigger another check after the gap.
                    _ => break,
                },
                Err(_) => self.inotify = None,
            }
        }
        if self.inotify.is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.last_check = Some(now());
        self.gap = (self.gap * 2).clamp(Duration::from_millis(1), MAX_GAP);
        if self.last_seen.values().any(|known| known.is_tether_held) {
            self.last_event = Some((now(), 0));
        }
    }

    /// Returns the changes since the last call. An invalid report file counts as no report.
    pub(crate) fn take_changes(&mut self) -> Vec<FolderChange> {
        let mut changes = Vec::new();
        let is_last_check = self.last_event.is_none_or(|(_, rounds)| rounds == RECHECK_DELAYS.len());
        for (name, known) in &mut self.last_seen {
            // Read the lock first: a gate reports Waiting before it takes its tether, and Opened while it holds the
            // tether.
            let is_tether_held = tether::is_held(&self.root, name);
            let (stamp, report) = match read_report(&self.root, name) {
                Ok((stamp, report)) => (Some(stamp), report),
                Err(error) => {
                    if error.kind() != io::ErrorKind::NotFound {
                        debug!(container = %name, %error, "can't read the report");
                    }
                    (None, None)
                }
            };
            let is_rewritten = known.stamp != stamp;
            if is_rewritten || known.is_tether_held != is_tether_held || !known.is_checked {
                *known = LastSeen { stamp, is_tether_held, is_checked: true };
                let container = name.clone();
                changes.push(FolderChange { container, report, is_rewritten, is_tether_held, is_last_check });
            }
        }
        changes
    }

    /// Makes the next `take_changes` return `container` even without a change.
    pub(crate) fn recheck(&mut self, container: &str) {
        if let Some(known) = self.last_seen.get_mut(container) {
            known.is_checked = false;
        }
    }
}

/// Creates the report file, padded to its full size, and the tether file if they are missing. With this reserved space,
/// the container can report even if another container fills the volume.
fn reserve_files(folder: &Path) -> io::Result<()> {
    for (name, text) in [(names::REPORT_FILE, Report::default().to_padded_text()), (names::TETHER_FILE, String::new())]
    {
        let found = std::fs::symlink_metadata(folder.join(name));
        if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            files::replace(folder, name, text.as_bytes(), 0o666)?;
        }
    }
    Ok(())
}

fn read_report(root: &Path, name: &str) -> io::Result<(Stamp, Option<Report>)> {
    let root = files::open_folder(root)?;
    let path = Path::new(name).join(names::REPORT_FILE);
    let handle = files::open_beneath(root.as_fd(), &path, OFlags::PATH)?;
    let metadata = File::from(handle).metadata()?;
    let stamp = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    // A report that is truncated, too long or not a regular file counts as no report. The earlier report does not count
    // either.
    let bytes = files::read_beneath(root.as_fd(), &path, names::BOARD_FILE_MAX);
    Ok((stamp, bytes.ok().and_then(|bytes| Report::parse(&bytes).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(containers: &[&str]) -> (tempfile::TempDir, Folders) {
        let root = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(root.path(), root.path());
        folders.create(containers.iter().copied()).unwrap();
        (root, folders)
    }

    #[tokio::test]
    async fn each_written_report_is_returned_once() {
        let (root, mut folders) = folders(&["db", "api"]);
        assert_eq!(folders.take_changes().len(), 2, "one change per new folder");
        let report = Report { epoch: "e".to_owned(), ..Report::default() };
        for _ in 0..2 {
            files::replace(&root.path().join("db"), "report", report.to_text().as_bytes(), 0o644).unwrap();
            folders.changed().await;
            let changes = folders.take_changes();
            assert_eq!((changes.len(), changes[0].container.as_str()), (1, "db"));
            assert_eq!((&changes[0].report, changes[0].is_rewritten), (&Some(report.clone()), true));
            assert!(folders.take_changes().is_empty());
        }
        std::fs::remove_file(root.path().join("db/report")).unwrap();
        assert_eq!(folders.take_changes().pop().unwrap().report, None);
    }

    #[tokio::test]
    async fn released_tether_is_a_change_without_a_new_report() {
        let (root, mut folders) = folders(&["db"]);
        assert!(!folders.take_changes()[0].is_tether_held);
        let tether = tether::Tether::take(&root.path().join("db")).unwrap();
        folders.changed().await;
        assert!(folders.take_changes()[0].is_tether_held);
        drop(tether);
        let mut checks = 0;
        let change = loop {
            folders.changed().await;
            checks += 1;
            if let Some(change) = folders.take_changes().pop() {
                break change;
            }
        };
        assert!(!change.is_tether_held && !change.is_rewritten && checks < 10, "{change:?} after {checks} checks");
    }

    #[tokio::test]
    async fn invalid_report_files_are_ignored_without_blocking() {
        let (root, mut folders) = folders(&["db"]);
        let report = root.path().join("db/report");
        std::fs::remove_file(&report).unwrap();
        std::fs::write(root.path().join("secret"), "started=\"true\"").unwrap();
        std::os::unix::fs::symlink("../secret", &report).unwrap();
        assert!(folders.take_changes().iter().all(|change| change.report.is_none()));
        std::fs::remove_file(&report).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &report, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0)
            .unwrap();
        assert!(folders.take_changes().iter().all(|change| change.report.is_none()));
        std::fs::remove_file(&report).unwrap();
        std::fs::write(&report, vec![b'x'; names::BOARD_FILE_MAX + 1]).unwrap();
        assert!(folders.take_changes().iter().all(|change| change.report.is_none()));
    }
}

//! The containers' own folders: made by the controller, watched by inotify, read with suspicion.

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

/// How often to look where inotify has run out.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long to leave between two looks at most: who writes without end costs no more than this.
const MAX_GAP: Duration = Duration::from_millis(200);
/// After a rest as long as this, the next event is looked at without delay again.
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// How long after an event to look again: a file is told to be closed a little before its lock is gone, and a process that ends
/// lets go of its ports and of its tether in no certain order.
const RECHECK_DELAYS: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4), Duration::from_millis(8)];

/// The folders, and what was found in each last.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    inotify: Option<AsyncFd<Inotify>>,
    last_seen: BTreeMap<String, LastSeen>,
    gap: Duration,
    last_check: Option<Instant>,
    /// When the last event came, and how often it was looked at again since.
    last_event: Option<(Instant, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LastSeen {
    stamp: Option<Stamp>,
    is_tether_held: bool,
    is_checked: bool,
}

/// Which file it was: its inode, and when that was changed. A replaced file differs in at least one of these.
type Stamp = (u64, i64, i64);

/// A folder in which something has changed.
#[derive(Debug, PartialEq)]
pub(crate) struct FolderChange {
    pub(crate) container: String,
    pub(crate) report: Option<Report>,
    /// The report is another file than before.
    pub(crate) is_rewritten: bool,
    /// Somebody holds the tether.
    pub(crate) is_tether_held: bool,
    /// Nothing will be looked at again because of the event that led here.
    pub(crate) is_last_check: bool,
}

impl Folders {
    /// To be called inside the runtime.
    pub(crate) fn new(root: &Path, podinfo: &Path) -> Folders {
        #[allow(deprecated, reason = "sound here: an Inotify owns its descriptor, and never gives it away")]
        let register = |inotify| AsyncFd::with_interest(inotify, Interest::READABLE);
        let inotify: io::Result<_> = Inotify::init().and_then(register);
        if let Err(error) = &inotify {
            warn!(%error, "no inotify; looks at the folders every 100 ms instead");
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

    /// Makes the folder of each container that has none yet, and watches it.
    ///
    /// # Errors
    /// When a folder can't be made: then that container can't report.
    pub(crate) fn create<'a>(&mut self, containers: impl Iterator<Item = &'a str>) -> io::Result<()> {
        for name in containers {
            if self.last_seen.contains_key(name) {
                continue;
            }
            let path = self.root.join(name);
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o777)) {
                // Whoever runs there, under whatever user id, reports into it; nobody else sees it. The umask does not count.
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
        // The last close of a tether is a CLOSE_WRITE too, however its process has ended.
        let mask = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE | WatchMask::ONLYDIR;
        if let Err(error) = inotify.get_mut().watches().add(path, mask) {
            debug!(%error, path = %path.display(), "can't watch");
        }
    }

    /// Returns when something may have been written, or let go of. Safe to drop and call again.
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
                    // Events are wake-ups, not data; an overflow is one too. What stays in the queue wakes after the gap.
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

    /// The folders in which something has changed since the last call. What is not as the agent writes it is no report.
    pub(crate) fn take_changes(&mut self) -> Vec<FolderChange> {
        let mut fresh = Vec::new();
        let is_last_look = self.last_event.is_none_or(|(_, rounds)| rounds == RECHECK_DELAYS.len());
        for (name, known) in &mut self.last_seen {
            // The lock first: a gate reports that it waits before it takes its tether, and that it has opened while it holds it.
            let held = tether::is_held(&self.root, name);
            let (stamp, report) = match read_report(&self.root, name) {
                Ok((stamp, report)) => (Some(stamp), report),
                Err(error) => {
                    if error.kind() != io::ErrorKind::NotFound {
                        debug!(container = %name, %error, "no report to believe");
                    }
                    (None, None)
                }
            };
            let rewritten = known.stamp != stamp;
            if rewritten || known.is_tether_held != held || !known.is_checked {
                *known = LastSeen { stamp, is_tether_held: held, is_checked: true };
                fresh.push(FolderChange {
                    container: name.clone(),
                    report,
                    is_rewritten: rewritten,
                    is_tether_held: held,
                    is_last_check: is_last_look,
                });
            }
        }
        fresh
    }

    /// To be told of this container again, at the next look.
    pub(crate) fn recheck(&mut self, container: &str) {
        if let Some(known) = self.last_seen.get_mut(container) {
            known.is_checked = false;
        }
    }
}

/// Puts files where the report, of the size that it never exceeds, and the tether will lie, so that a neighbour who fills the
/// volume can't keep this container from reporting. What lies there from before serves as well.
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
    // A report that is torn, too long or no file at all is *unknown*: it takes back an earlier one and says nothing itself.
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
    async fn each_report_is_told_once_and_a_rewritten_one_again() {
        let (root, mut folders) = folders(&["db", "api"]);
        assert_eq!(folders.take_changes().len(), 2, "the reserved ones");
        let report = Report { epoch: "e".to_owned(), ..Report::default() };
        for _ in 0..2 {
            files::replace(&root.path().join("db"), "report", report.to_text().as_bytes(), 0o644).unwrap();
            folders.changed().await;
            let fresh = folders.take_changes();
            assert_eq!((fresh.len(), fresh[0].container.as_str()), (1, "db"));
            assert_eq!((&fresh[0].report, fresh[0].is_rewritten), (&Some(report.clone()), true));
            assert!(folders.take_changes().is_empty());
        }
        std::fs::remove_file(root.path().join("db/report")).unwrap();
        assert_eq!(folders.take_changes().pop().unwrap().report, None);
    }

    #[tokio::test]
    async fn a_tether_that_drops_is_told_though_no_file_is_written() {
        let (root, mut folders) = folders(&["db"]);
        assert!(!folders.take_changes()[0].is_tether_held);
        let tether = tether::Tether::take(&root.path().join("db")).unwrap();
        folders.changed().await;
        assert!(folders.take_changes()[0].is_tether_held);
        drop(tether);
        let mut looks = 0;
        let fresh = loop {
            folders.changed().await;
            looks += 1;
            if let Some(fresh) = folders.take_changes().pop() {
                break fresh;
            }
        };
        assert!(!fresh.is_tether_held && !fresh.is_rewritten && looks < 10, "{fresh:?} after {looks} looks");
    }

    #[tokio::test]
    async fn hostile_things_are_no_report_and_never_block() {
        let (root, mut folders) = folders(&["db"]);
        let report = root.path().join("db/report");
        std::fs::remove_file(&report).unwrap();
        std::fs::write(root.path().join("secret"), "started=\"true\"").unwrap();
        std::os::unix::fs::symlink("../secret", &report).unwrap();
        assert!(folders.take_changes().iter().all(|fresh| fresh.report.is_none()));
        std::fs::remove_file(&report).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &report, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0)
            .unwrap();
        assert!(folders.take_changes().iter().all(|fresh| fresh.report.is_none()));
        std::fs::remove_file(&report).unwrap();
        std::fs::write(&report, vec![b'x'; names::BOARD_FILE_MAX + 1]).unwrap();
        assert!(folders.take_changes().iter().all(|fresh| fresh.report.is_none()));
    }
}

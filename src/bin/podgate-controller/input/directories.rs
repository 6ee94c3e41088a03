//! Creates the containers' directories and watches them with inotify. The content of the directories is not trusted.

use crate::clock::now;
use crate::input::report_file::{DirectoryState, FileVersion, make_container_directory, read_report};
use crate::precise_timer::PreciseTimer;
use crate::rate_limit::{CpuBucket, ReportBucket};
use futures::FutureExt;
use inotify::{Inotify, WatchMask};
use podgate::core::container::Container;
use podgate::core::report::{Report, reserved_size};
use podgate::edge::lock;
use podgate::edge::watch::reread_interval;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::{debug, warn};

/// Polling interval when inotify is not available or a directory cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Delays after an event at which the sidecar checks the directories again, in milliseconds. inotify reports the close
/// of a tether just before the kernel releases its lock. An exiting process releases ports and tether in any order.
const RECHECK_DELAYS_MS: [u64; 4] = [1, 2, 4, 8];

pub(crate) struct ContainerDirectories {
    root: PathBuf,
    inotify: Option<AsyncFd<Inotify>>,
    /// Directories that could not be created or watched yet, with the size of their reports.
    unwatched: Vec<(PathBuf, usize)>,
    has_warned: bool,
    /// Kernel timer for the checks. Tokio's timer would wake the idle sidecar more than once for each check.
    timer: PreciseTimer,
    last_seen: BTreeMap<String, LastSeen>,
    /// Limits the sidecar's CPU use while containers write continuously.
    budget: CpuBucket,
    /// CPU time of this thread when the last event arrived; `None` if `budget` already includes the handling of that
    /// event.
    handled_since: Option<Duration>,
    last_check: Instant,
    last_event: Instant,
    /// Time of the last attempt to watch the unwatched directories.
    last_retry: Instant,
    /// Time of the last event, and number of checks made since then. Several checks follow each event.
    rechecks: Option<(Instant, usize)>,
    /// Time of the next check of a container whose rate limit has delayed a change.
    retry_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct LastSeen {
    stamp: Option<FileVersion>,
    /// Last report. The stamp alone is not enough: two writes in place within one clock tick have the same stamp.
    report: Option<Report>,
    is_tethered: bool,
    is_checked: bool,
    limit: ReportBucket,
}

impl ContainerDirectories {
    /// Creates the inotify instance. Must be called inside the tokio runtime.
    pub(crate) fn new(root: &Path) -> ContainerDirectories {
        #[expect(deprecated, reason = "sound here: an Inotify owns its descriptor and never exposes it")]
        let register = |inotify| AsyncFd::with_interest(inotify, Interest::READABLE);
        let inotify: io::Result<_> = Inotify::init().and_then(register);
        if let Err(error) = &inotify {
            warn!(%error, "no inotify; polling the directories every 100 ms instead; raise fs.inotify.max_user_instances on the node");
        }
        ContainerDirectories {
            root: root.to_owned(),
            inotify: inotify.ok(),
            unwatched: Vec::new(),
            has_warned: false,
            timer: PreciseTimer::default(),
            last_seen: BTreeMap::new(),
            budget: CpuBucket::default(),
            handled_since: None,
            last_check: now(),
            last_event: now(),
            last_retry: now(),
            rechecks: None,
            retry_at: None,
        }
    }

    /// Creates and watches a directory for each new container. If this fails, the sidecar polls all directories, and
    /// [`changed`](ContainerDirectories::changed) tries again.
    pub(crate) fn create<'a>(&mut self, containers: impl Iterator<Item = &'a Container>) {
        for Container { name, until, .. } in containers {
            if !self.last_seen.contains_key(name) {
                self.last_seen.insert(name.to_owned(), LastSeen::default());
                self.prepare(self.root.join(name), reserved_size(until));
            }
        }
    }

    fn prepare(&mut self, path: PathBuf, report_size: usize) {
        if let Err(error) = make_container_directory(&path, report_size).and_then(|()| self.watch(&path)) {
            if !std::mem::replace(&mut self.has_warned, true) {
                warn!(%error, path = %path.display(), "cannot create or watch a directory; polling every 100 ms instead");
            }
            self.unwatched.push((path, report_size));
        }
    }

    fn watch(&mut self, path: &Path) -> io::Result<()> {
        let Some(inotify) = &mut self.inotify else { return Ok(()) };
        // The kernel sends CLOSE_WRITE for the last close of a tether too, even if the process was killed.
        let mask = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE | WatchMask::ONLYDIR;
        inotify.get_mut().watches().add(path, mask).map(|_| ())
    }

    /// Waits until a container may have written its report or released its tether. Returns after the
    /// [`reread_interval`] too, in case inotify loses an event. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let reread = reread_interval(now() - self.last_event);
        // The caller has read the reports after the event. Only a released tether needs another check.
        while let Some((at, rounds)) = self.rechecks
            && let Some(pause) = RECHECK_DELAYS_MS.get(rounds)
        {
            tokio::time::sleep_until((at + Duration::from_millis(*pause)).into()).await;
            self.rechecks = Some((at, rounds + 1));
            let needs_check = |name: &String, seen: &LastSeen| {
                !seen.is_checked || seen.is_tethered && !lock::is_tethered(&self.root, name)
            };
            let has_event = next_event(&mut self.inotify).now_or_never().is_some();
            if has_event || self.last_seen.iter().any(|(name, seen)| needs_check(name, seen)) {
                return;
            }
        }
        self.rechecks = None;
        if let Some(before) = self.handled_since.take() {
            self.budget.charge(thread_cpu_time().saturating_sub(before), now());
        }
        if let Some(at) = self.budget.ready_from() {
            tokio::time::sleep_until(at.min(self.last_check + reread).into()).await;
        }
        let is_polling = self.inotify.is_none() || !self.unwatched.is_empty();
        let due = self.last_check + if is_polling { POLL_INTERVAL } else { reread };
        let due = self.retry_at.map_or(due, |at| at.min(due));
        let has_event = tokio::select! {
            () = next_event(&mut self.inotify) => true,
            () = self.timer.sleep_until(due) => false,
        };
        self.last_check = now();
        if has_event {
            self.last_event = self.last_check;
        }
        self.handled_since = has_event.then(thread_cpu_time);
        if !has_event && is_polling && now() - self.last_retry >= reread {
            self.last_retry = now();
            std::mem::take(&mut self.unwatched).into_iter().for_each(|(path, size)| self.prepare(path, size));
        }
        // After an event, check again if any container was tethered. After a poll, check again only if a tether was
        // released.
        let may_be_released =
            |name: &String, seen: &LastSeen| seen.is_tethered && (has_event || !lock::is_tethered(&self.root, name));
        if self.last_seen.iter().any(|(name, seen)| may_be_released(name, seen)) {
            self.rechecks = Some((now(), 0));
        }
    }

    /// Returns true if another check follows soon for the event that triggered the last check.
    pub(crate) fn rechecks_soon(&self) -> bool {
        self.rechecks.is_some_and(|(_, rounds)| rounds < RECHECK_DELAYS_MS.len())
    }

    /// Returns the containers whose directories have changed since the last call. Treats an invalid report file as a
    /// missing report. Delays the changes of a container that changes too often.
    pub(crate) fn take_changes(&mut self) -> Vec<(String, DirectoryState)> {
        let mut changes = Vec::new();
        self.retry_at = None;
        for (name, known) in &mut self.last_seen {
            // Read the lock before the report, so that the report is at least as new as the lock. A gate reports
            // Waiting before it takes its tether, and Opened while it holds the tether.
            let is_tethered = lock::is_tethered(&self.root, name);
            let found = read_report(&self.root, name).inspect_err(|error| {
                if error.kind() != io::ErrorKind::NotFound {
                    debug!(container = %name, %error, "cannot read the report");
                }
            });
            let (stamp, report) = found.map_or((None, None), |(stamp, report)| (Some(stamp), report));
            let is_rewritten = known.stamp != stamp || known.report != report;
            if !is_rewritten && known.is_tethered == is_tethered && known.is_checked {
                continue;
            }
            if let Err(at) = known.limit.take(now()) {
                self.retry_at = Some(self.retry_at.map_or(at, |known| known.min(at)));
                continue;
            }
            (known.stamp, known.report) = (stamp, report.clone());
            (known.is_tethered, known.is_checked) = (is_tethered, true);
            changes.push((name.clone(), DirectoryState { report, is_rewritten, is_tethered, is_listening: false }));
        }
        changes
    }

    /// Makes the next `take_changes` return `directory` of `container` again, even without a change.
    pub(crate) fn requeue(&mut self, container: &str, directory: &DirectoryState) {
        if let Some(known) = self.last_seen.get_mut(container) {
            known.is_checked = false;
            known.stamp = known.stamp.filter(|_| !directory.is_rewritten);
        }
    }
}

fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Waits for an inotify event. Never returns if inotify is not available. Cancel-safe.
async fn next_event(inotify: &mut Option<AsyncFd<Inotify>>) {
    while let Some(instance) = inotify {
        let mut buffer = [0; 4096];
        match instance.readable_mut().await {
            Ok(mut guard) => match guard.get_inner_mut().read_events(&mut buffer).map_or(0, Iterator::count) {
                0 => guard.clear_ready(),
                // An event only triggers a check of all directories, so a queue overflow does no harm. Events left in
                // the queue trigger another check.
                _ => return,
            },
            Err(_) => *inotify = None,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use podgate::edge::files;

    #[tokio::test]
    async fn content_is_compared_if_the_stamp_is_the_same() {
        let root = tempfile::tempdir().unwrap();
        let mut directories = ContainerDirectories::new(root.path());
        directories.create([Container { name: "db".to_owned(), ..Container::default() }].iter());
        directories.take_changes();
        let report = Report { started: true, ..Report::default() };
        files::overwrite(&root.path().join("db"), "report", report.to_padded_text(reserved_size(&[])).as_bytes())
            .unwrap();
        let (stamp, _) = read_report(root.path(), "db").unwrap();
        directories.last_seen.get_mut("db").unwrap().stamp = Some(stamp);
        let changes = directories.take_changes();
        let directory = &changes[0].1;
        assert!(directory.is_rewritten && directory.report.as_ref().unwrap().started);
    }
}

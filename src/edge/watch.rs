//! Reads the pod's state and waits for changes. Before each read, arms the first of these methods that works:
//!
//! 1. the bell, if the board has a live bell;
//! 2. inotify on the directories. A watch on a file would miss changes, because both sources replace files by renaming,
//!    and the downward-API volume swaps the link `..data`;
//! 3. polling, if inotify does not work or has no free instance (instances are limited per user id on the whole node).
//!
//! Events carry no data: after each event, the agent reads the whole state again. Without events, the agent reads the
//! state again after the [`reread_interval`].

use crate::clock::now;
use crate::core::names;
use crate::core::sources::{PodView, Source};
use crate::core::words::words;
use crate::edge::bell::Bell;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval of the re-reads if neither the bell nor inotify works.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest interval of the slow re-read, which finds a change if its event is lost.
pub const REREAD_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Returns the time until the next slow re-read: a tenth of `elapsed`, at least 1 s ([`REREAD_INTERVAL_MIN`]) and at
/// most ten times as long.
pub fn reread_interval(elapsed: Duration) -> Duration {
    (elapsed / 10).clamp(REREAD_INTERVAL_MIN, REREAD_INTERVAL_MIN * 10)
}

/// Maximum number of immediate re-reads if the armed method does not cover the source. The limit prevents a busy loop
/// on a board that changes all the time.
const REREADS_MAX: u32 = 3;

words! {
    /// Method of waiting for changes.
    WatchMethod {
        /// A live bell.
        Bell = "bell",
        /// Watches on the directories.
        Inotify = "inotify",
        /// Re-reads at an interval.
        Polling = "polling",
    }
}

/// Reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// A source may have changed.
    Source,
    /// Another descriptor is ready.
    Other,
    /// A time limit has passed, the slow re-read is due, or a signal has interrupted the wait.
    NoEvent,
}

/// A watch over the board and the downward-API volume.
pub struct Watch {
    board: PathBuf,
    /// The directories, each with its inotify watch.
    directories: Vec<(PathBuf, Option<WatchDescriptor>)>,
    /// Time at which the watch was created.
    since: Instant,
    bell: Option<Bell>,
    inotify: Option<Inotify>,
    /// Method armed for the last read.
    pub method: WatchMethod,
    /// True if the last read found a valid snapshot on the board. Then only the board matters, and the bell suffices.
    board_has_snapshot: bool,
}

impl Watch {
    /// Creates a watch over nothing, which only waits for other descriptors.
    pub fn of_nothing() -> Watch {
        Watch { directories: Vec::new(), ..Watch::new(PathBuf::new(), None) }
    }

    /// Creates a watch over the board at `board` and, if given, the volume at `volume`.
    pub fn new(board: PathBuf, volume: Option<PathBuf>) -> Watch {
        let paths = [board.clone()].into_iter().chain(volume);
        let (directories, method) = (paths.map(|path| (path, None)).collect(), WatchMethod::Polling);
        Watch { board, directories, since: now(), bell: None, inotify: None, method, board_has_snapshot: true }
    }

    /// Reads the pod's state with `read`. A later [`wait`](Watch::wait) returns when the state changes, because this
    /// function arms a method before each read. Reads again if the result requires another method.
    pub fn read(&mut self, mut read: impl FnMut() -> PodView) -> PodView {
        let mut rereads = 0;
        loop {
            self.arm();
            let view = read();
            let from_board = matches!(view, PodView::Snapshot(_, Source::Board));
            let had_snapshot = std::mem::replace(&mut self.board_has_snapshot, from_board);
            let is_armed = match self.method {
                // The bell rings only for changes of the board. If the sidecar replaced the bell before this read, the
                // old bell never rings again, so the wait must use the new bell.
                WatchMethod::Bell => from_board && self.bell.as_ref().is_some_and(Bell::is_current),
                // Directory watches cover both sources. If the board had no snapshot before and has one now, try the
                // bell, which closes faster than inotify.
                WatchMethod::Inotify | WatchMethod::Polling => had_snapshot || !from_board,
            };
            if is_armed || rereads == REREADS_MAX {
                return view;
            }
            rereads += 1;
        }
    }

    /// Arms a method, so that [`wait`](Watch::wait) returns after each later change.
    pub fn arm(&mut self) {
        if !self.bell.as_ref().is_some_and(|bell| {
            bell.is_live && bell.is_current() && !wait_until_ready(bell, PollFlags::empty(), Duration::ZERO)
        }) {
            self.bell = self.open_bell();
        }
        self.method = if self.has_live_bell() && self.board_has_snapshot {
            WatchMethod::Bell
        } else if self.watch_directories() {
            WatchMethod::Inotify
        } else {
            WatchMethod::Polling
        };
    }

    fn open_bell(&self) -> Option<Bell> {
        self.directories.first()?;
        let path = self.board.join(names::BELL_FILE);
        let mut bell = Bell::open(&path)?;
        for _ in 0..3 {
            // If the sidecar has just replaced the bell, the opened bell looks dead. Then open the new bell.
            if bell.is_live || bell.is_current() {
                break;
            }
            bell = Bell::open(&path)?;
        }
        Some(bell)
    }

    /// Returns true if the board has a bell with an open write end.
    pub fn has_live_bell(&self) -> bool {
        self.bell.as_ref().is_some_and(|bell| bell.is_live)
    }

    /// Returns true if the board has a bell. A dead bell means that the sidecar has died.
    pub fn has_any_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Sleeps for at most `limit`, until a source may have changed, one of `others` is ready or the slow re-read is due.
    pub fn wait(&mut self, limit: Duration, others: Vec<PollFd<'_>>) -> io::Result<WakeReason> {
        if self.method == WatchMethod::Bell {
            // Closing inotify takes milliseconds. Close it before the wait, not when the gate is about to open.
            self.close_inotify();
        }
        let most = match self.method {
            WatchMethod::Polling if !self.directories.is_empty() => POLL_INTERVAL,
            _ => reread_interval(self.since.elapsed()),
        };
        let timeout = Timespec::try_from(limit.min(most)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let count = others.len();
        let mut set = others;
        // Skip a dead bell, whose hang-up would end each wait at once.
        if let Some(bell) = self.bell.as_ref().filter(|bell| bell.is_live) {
            set.push(PollFd::new(bell, PollFlags::empty()));
        }
        if let Some(inotify) = self.inotify.as_ref().filter(|_| self.method == WatchMethod::Inotify) {
            set.push(PollFd::new(inotify, PollFlags::IN));
        }
        let woken = match poll(&mut set, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => WakeReason::NoEvent,
            Ok(_) if set[count..].iter().any(|source| !source.revents().is_empty()) => WakeReason::Source,
            Ok(_) => WakeReason::Other,
            Err(error) => return Err(error.into()),
        };
        drop(set);
        // Draining also removes events that arrived after the poll, so these events must end the wait too.
        let has_events = self.method == WatchMethod::Inotify && self.drain_events();
        Ok(if has_events { WakeReason::Source } else { woken })
    }

    /// Watches each directory that exists. Returns false if no directory could be watched.
    fn watch_directories(&mut self) -> bool {
        if self.inotify.is_none() && !self.directories.is_empty() {
            self.inotify = Inotify::init().ok();
        }
        let Some(inotify) = &mut self.inotify else { return false };
        // On a full volume, podgate overwrites a file in place, which causes CLOSE_WRITE.
        let changes = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE;
        let mask = changes | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
        let mut watching = false;
        for (path, watch) in &mut self.directories {
            if watch.is_none() {
                *watch = inotify.watches().add(path, mask).ok();
            }
            watching |= watch.is_some();
        }
        watching
    }

    /// Drains the event queue. Returns true if there were events. An overflow needs no special handling, because the
    /// caller reads the whole state again. If a watched directory or its mount is gone, the next call of
    /// [`arm`](Watch::arm) adds a new watch.
    fn drain_events(&mut self) -> bool {
        let gone = EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::UNMOUNT;
        let mut has_events = false;
        let mut buffer = [0; 4096];
        while let Some(inotify) = &mut self.inotify {
            let events = match inotify.read_events(&mut buffer) {
                Ok(events) => events,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close_inotify();
                    return true;
                }
            };
            has_events = true;
            for event in events.filter(|event| event.mask.intersects(gone)) {
                // Two paths may refer to the same directory, which has one watch.
                let watches = self.directories.iter_mut().map(|(_, watch)| watch);
                let lost = watches.filter(|watch| watch.as_ref() == Some(&event.wd));
                lost.for_each(|watch| *watch = None);
            }
        }
        has_events
    }

    fn close_inotify(&mut self) {
        self.inotify = None;
        self.directories.iter_mut().for_each(|(_, watch)| *watch = None);
    }
}

/// Waits until `descriptor` is ready for one of `flags` or has hung up. Returns false after `limit`.
pub fn wait_until_ready(descriptor: &impl AsFd, flags: PollFlags, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).ok();
    let mut set = [PollFd::new(descriptor, flags)];
    matches!(rustix::io::retry_on_intr(|| poll(&mut set, timeout.as_ref())), Ok(1))
}

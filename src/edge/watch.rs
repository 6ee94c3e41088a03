//! Reading the pod's state and waiting for it to change, by three rungs, each armed before the read that decides:
//!
//! 1. the bell, where the board has a live one;
//! 2. inotify on the folders, never on the files: both sources replace files by renaming over them, and the downward-API volume
//!    swaps the link `..data`;
//! 3. polling, when inotify has run out (its instances are limited per user id across the whole node) or does not work.
//!
//! Events are wake-ups and never data: after each, everything is read again. Behind all three stands a slow re-read.

use crate::core::names;
use crate::core::sources::{PodView, Source};
use crate::core::words::words;
use crate::edge::bell::Bell;
use inotify::{EventMask, Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

/// How long a waiter sleeps at most before it reads again.
pub const SLOW_REREAD: Duration = Duration::from_secs(1);

/// How often in a row a waiter arms and reads again, without sleeping, because what it read is not what it had armed. The limit
/// keeps a board that changes all the time from holding a waiter up.
const REREADS_MAX: u32 = 3;

words! {
    /// By which means a waiter waits.
    WatchMethod {
        /// A live bell.
        Bell = "bell",
        /// Watches on the folders.
        Inotify = "inotify",
        /// Reading again at an interval.
        Polling = "polling",
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// A source may have changed.
    Source,
    /// Another descriptor is ready.
    Other,
    /// Time is up.
    Timeout,
}

/// One waiter's watch over the board and the downward-API volume.
#[derive(Debug)]
pub struct Watch {
    board: PathBuf,
    folders: Vec<Folder>,
    poll_interval: Duration,
    bell: Option<Bell>,
    inotify: Option<Inotify>,
    method: WatchMethod,
    /// Whether the last read was of a board that speaks of this sandbox: then nothing but the board matters, and a bell suffices.
    board_has_snapshot: bool,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    watch: Option<inotify::WatchDescriptor>,
}

impl Watch {
    /// Watches the board at `board`, and where one counts the volume at `volume`.
    pub fn new(board: PathBuf, volume: Option<PathBuf>, poll_interval: Duration) -> Watch {
        let paths = [board.clone()].into_iter().chain(volume);
        let folders = paths.map(|path| Folder { path, watch: None }).collect();
        Watch {
            board,
            folders,
            poll_interval,
            bell: None,
            inotify: None,
            method: WatchMethod::Polling,
            board_has_snapshot: true,
        }
    }

    /// Reads the pod's state by `read`, such that [`wait`](Watch::wait) returns when it changes: arms before each read, and reads
    /// again when the read shows that something else has to be armed.
    pub fn read(&mut self, mut read: impl FnMut() -> PodView) -> PodView {
        let mut rereads = 0;
        loop {
            self.arm();
            let view = read();
            let from_board = matches!(view, PodView::Snapshot(_, Source::Board));
            let spoke = std::mem::replace(&mut self.board_has_snapshot, from_board);
            let is_armed = match self.method {
                // The bell rings for the board alone, and one that was replaced before the read has rung already.
                WatchMethod::Bell => from_board && self.bell.as_ref().is_some_and(Bell::is_current),
                // The folders cover both sources. A board that speaks only now may have a live bell, which is cheaper to leave.
                WatchMethod::Inotify | WatchMethod::Polling => spoke || !from_board,
            };
            if is_armed || rereads == REREADS_MAX {
                return view;
            }
            rereads += 1;
        }
    }

    /// What the last read was armed by.
    pub fn method(&self) -> WatchMethod {
        self.method
    }

    fn arm(&mut self) {
        if !self.bell.as_ref().is_some_and(|bell| {
            bell.is_live() && bell.is_current() && !wait_until_ready(bell, PollFlags::empty(), Duration::ZERO)
        }) {
            self.bell = self.open_bell();
        }
        self.method = if self.is_controller_alive() && self.board_has_snapshot {
            WatchMethod::Bell
        } else if self.watch_folders() {
            WatchMethod::Inotify
        } else {
            WatchMethod::Polling
        };
    }

    fn open_bell(&self) -> Option<Bell> {
        let path = self.board.join(names::BELL_FILE);
        let mut bell = Bell::open(&path)?;
        for _ in 0..3 {
            // One that was let go of between being found and being opened looks dead; its successor is in its place by then.
            if bell.is_live() || bell.is_current() {
                break;
            }
            bell = Bell::open(&path)?;
        }
        Some(bell)
    }

    /// Whether the bell is there and somebody holds its write end.
    pub fn is_controller_alive(&self) -> bool {
        self.bell.as_ref().is_some_and(Bell::is_live)
    }

    /// Whether the board has a bell at all: one that is dead means that its controller has died.
    pub fn has_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Sleeps until a source may have changed, one of `others` is ready, or `limit` has passed; at most until the slow re-read.
    ///
    /// # Errors
    /// When the kernel refuses to wait, which it has no reason to.
    pub fn wait(&mut self, limit: Duration, others: Vec<PollFd<'_>>) -> io::Result<WakeReason> {
        if self.method == WatchMethod::Bell {
            // Back from inotify. To close it takes milliseconds: rather now than when the wait is over.
            self.close_inotify();
        }
        let most = if self.method == WatchMethod::Polling { self.poll_interval.min(SLOW_REREAD) } else { SLOW_REREAD };
        let timeout = Timespec::try_from(limit.min(most)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let count = others.len();
        let mut set = others;
        // A dead bell stays hung up, and would wake at once each time.
        if let Some(bell) = self.bell.as_ref().filter(|bell| bell.is_live()) {
            set.push(PollFd::new(bell, PollFlags::empty()));
        }
        if self.method == WatchMethod::Inotify
            && let Some(inotify) = &self.inotify
        {
            set.push(PollFd::new(inotify, PollFlags::IN));
        }
        let woken = match poll(&mut set, Some(&timeout)) {
            Ok(0) => WakeReason::Timeout,
            Ok(_) if set[count..].iter().any(|source| !source.revents().is_empty()) => WakeReason::Source,
            Ok(_) => WakeReason::Other,
            Err(rustix::io::Errno::INTR) => WakeReason::Timeout,
            Err(error) => return Err(error.into()),
        };
        drop(set);
        // What came since the poll is taken off the queue too, so it must not be passed over.
        let came = self.method == WatchMethod::Inotify && self.drain_events();
        Ok(if came { WakeReason::Source } else { woken })
    }

    /// Puts a watch on each folder that is there; `false` if none could be put.
    fn watch_folders(&mut self) -> bool {
        if self.inotify.is_none() {
            self.inotify = Inotify::init().ok();
        }
        let Some(inotify) = &mut self.inotify else { return false };
        let mask = WatchMask::MOVED_TO | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
        let mut watching = false;
        for folder in &mut self.folders {
            if folder.watch.is_none() {
                folder.watch = inotify.watches().add(&folder.path, mask).ok();
            }
            watching |= folder.watch.is_some();
        }
        watching
    }

    /// Takes all events off the queue. An overflow needs nothing more: everything is read again anyway. A watch whose folder is
    /// gone (deleted, unmounted) is put anew by the next arming. Whether there was any.
    fn drain_events(&mut self) -> bool {
        let gone = EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::UNMOUNT;
        let mut came = false;
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
            came = true;
            for event in events.filter(|event| event.mask.intersects(gone)) {
                // Two paths may name one folder, which has one watch.
                let lost = |folder: &&mut Folder| folder.watch.as_ref() == Some(&event.wd);
                self.folders.iter_mut().filter(lost).for_each(|folder| folder.watch = None);
            }
        }
        came
    }

    fn close_inotify(&mut self) {
        self.inotify = None;
        self.folders.iter_mut().for_each(|folder| folder.watch = None);
    }
}

/// Waits until `descriptor` is ready for one of `flags`, or has hung up, for at most `limit`; returns whether it is.
pub fn wait_until_ready(descriptor: &impl AsFd, flags: PollFlags, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).ok();
    let mut set = [PollFd::new(descriptor, flags)];
    matches!(rustix::io::retry_on_intr(|| poll(&mut set, timeout.as_ref())), Ok(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::bell::Ringer;
    use crate::edge::files::replace;

    use crate::core::names::ANNOTATIONS_FILE;
    use crate::core::snapshot::Snapshot;
    use crate::core::sources::SourceError;
    use std::path::Path;

    fn watch(board: &Path) -> Watch {
        Watch::new(board.to_owned(), Some(board.join("no-volume")), Duration::from_millis(1))
    }

    /// Reads once more, what the board says of this sandbox.
    fn arm(watch: &mut Watch) -> WatchMethod {
        watch.read(word);
        watch.method()
    }

    fn word() -> PodView {
        PodView::Snapshot(Snapshot::new("0-0-0".parse().unwrap(), "e", &[]), Source::Board)
    }

    fn no_word() -> PodView {
        PodView::NoSnapshot { board: SourceError::OtherSandbox, volume: SourceError::OtherSandbox }
    }

    fn wait(watch: &mut Watch, limit: Duration) -> WakeReason {
        watch.wait(limit, Vec::new()).unwrap()
    }

    fn rung_bell(board: &Path) -> Ringer {
        let mut ringer = Ringer::new(board, names::BELL_FILE);
        ringer.ring().unwrap();
        ringer
    }

    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn falls_from_the_bell_to_inotify_when_the_controller_dies_and_climbs_back() {
        let board = tempfile::tempdir().unwrap();
        let ringer = rung_bell(board.path());
        let mut watch = watch(board.path());
        assert_eq!(arm(&mut watch), WatchMethod::Bell);
        drop(ringer);
        assert_eq!(wait(&mut watch, LONG), WakeReason::Source);
        assert_eq!(arm(&mut watch), WatchMethod::Inotify);
        assert!(watch.has_bell() && !watch.is_controller_alive());
        let _ringer = rung_bell(board.path());
        assert_eq!(wait(&mut watch, LONG), WakeReason::Source);
        assert_eq!(arm(&mut watch), WatchMethod::Bell);
    }

    #[test]
    fn inotify_wakes_when_the_annotations_are_replaced() {
        let board = tempfile::tempdir().unwrap();
        let mut watch = watch(board.path());
        assert_eq!(arm(&mut watch), WatchMethod::Inotify);
        replace(board.path(), ANNOTATIONS_FILE, b"", 0o644).unwrap();
        assert_eq!(wait(&mut watch, LONG), WakeReason::Source);
        assert_eq!(wait(&mut watch, Duration::ZERO), WakeReason::Timeout);
    }

    #[test]
    fn polls_where_no_folder_is_there_and_takes_up_inotify_when_it_comes() {
        let above = tempfile::tempdir().unwrap();
        let board = above.path().join("board");
        // One folder under two names has one watch, and is lost under both.
        for volume in [board.join("no-volume"), board.clone()] {
            let mut watch = Watch::new(board.clone(), Some(volume), Duration::from_millis(1));
            assert_eq!(arm(&mut watch), WatchMethod::Polling);
            assert_eq!(wait(&mut watch, LONG), WakeReason::Timeout);
            std::fs::create_dir(&board).unwrap();
            assert_eq!(arm(&mut watch), WatchMethod::Inotify);
            std::fs::remove_dir(&board).unwrap();
            assert_eq!(wait(&mut watch, LONG), WakeReason::Source);
            assert_eq!(arm(&mut watch), WatchMethod::Polling);
        }
    }

    #[test]
    fn reads_again_until_what_was_armed_is_what_was_read() {
        let board = tempfile::tempdir().unwrap();
        let mut ringer = rung_bell(board.path());
        let mut watch = watch(board.path());
        // Reads what `view` gives, while the bell is replaced at the first `rings` reads; returns how many reads it took.
        let mut reads = |view: fn() -> PodView, rings: usize| {
            let mut count = 0;
            watch.read(|| {
                count += 1;
                (count <= rings).then(|| ringer.ring().unwrap());
                view()
            });
            (count, watch.method(), wait(&mut watch, Duration::ZERO))
        };
        assert_eq!(reads(word, 0), (1, WatchMethod::Bell, WakeReason::Timeout));
        // A bell that is replaced between arming and reading would not ring for the next publication.
        assert_eq!(reads(word, 1), (2, WatchMethod::Bell, WakeReason::Timeout));
        // A bell does not ring for the volume.
        assert_eq!(reads(no_word, 0), (2, WatchMethod::Inotify, WakeReason::Timeout));
        assert_eq!(reads(no_word, 0), (1, WatchMethod::Inotify, WakeReason::Timeout));
        // A board that begins to speak has a bell.
        assert_eq!(reads(word, 0), (2, WatchMethod::Bell, WakeReason::Timeout));
        // A board that changes at every read does not hold up the waiter, which wakes at once by the bell that has rung.
        assert_eq!(reads(word, usize::MAX), (4, WatchMethod::Bell, WakeReason::Source));
        drop(ringer);
        assert_eq!(arm(&mut watch), WatchMethod::Inotify);
    }
}

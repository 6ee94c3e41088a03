//! Waiting for a source to change, by three rungs, each armed before the read that decides:
//!
//! 1. the bell, where the board has a live one;
//! 2. inotify on the folders, never on the files: both sources replace files by renaming over them, and the downward-API volume
//!    swaps the link `..data`;
//! 3. polling, when inotify has run out (its instances are limited per user id across the whole node) or does not work.
//!
//! Events are wake-ups and never data: after each, everything is read again. Behind all three stands a slow re-read.

use crate::core::names;
use crate::edge::bell::Bell;
use inotify::{Inotify, WatchMask};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

/// How long a waiter sleeps at most before it reads again.
pub const SLOW_REREAD: Duration = Duration::from_secs(1);

/// By which means a waiter waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// A live bell.
    Bell,
    /// Watches on the folders.
    Inotify,
    /// Reading again at an interval.
    Polling,
}

impl Rung {
    /// For logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Rung::Bell => "bell",
            Rung::Inotify => "inotify",
            Rung::Polling => "polling",
        }
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A source may have changed.
    Source,
    /// The other descriptor is readable.
    Other,
    /// Time is up.
    Time,
}

/// The means of waiting of one waiter.
#[derive(Debug)]
pub struct Wake {
    board: PathBuf,
    folders: Vec<Folder>,
    poll_interval: Duration,
    bell: Option<Bell>,
    inotify: Option<Inotify>,
    rung: Rung,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    watch: Option<inotify::WatchDescriptor>,
}

impl Wake {
    /// Waits for changes of the board at `board` and of the volume at `podinfo`.
    pub fn new(board: PathBuf, podinfo: PathBuf, poll_interval: Duration) -> Wake {
        let folders = [board.clone(), podinfo].into_iter().map(|path| Folder { path, watch: None }).collect();
        Wake { board, folders, poll_interval, bell: None, inotify: None, rung: Rung::Polling }
    }

    /// Arms; to be called before each read that decides. `bell_suffices` says that the board speaks of this sandbox, so that
    /// nothing but the board matters.
    pub fn arm(&mut self, bell_suffices: bool) -> Rung {
        if !self.bell.as_ref().is_some_and(|bell| bell.is_live() && bell.is_current() && !hung_up(bell)) {
            self.bell = self.open_bell();
        }
        let live = self.controller_lives();
        self.rung = if live && bell_suffices {
            Rung::Bell
        } else if self.watch_folders() {
            Rung::Inotify
        } else {
            Rung::Polling
        };
        self.rung
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
    pub fn controller_lives(&self) -> bool {
        self.bell.as_ref().is_some_and(Bell::is_live)
    }

    /// Whether the board has a bell at all: one that is dead means that its controller has died.
    pub fn has_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// To be asked after the read: `false` means that the bell was replaced meanwhile, so arm and read once more.
    pub fn still_armed(&self) -> bool {
        self.rung != Rung::Bell || self.bell.as_ref().is_some_and(Bell::is_current)
    }

    /// Sleeps until a source may have changed, `other` is readable, or `limit` has passed; at most until the slow re-read.
    ///
    /// # Errors
    /// When the kernel refuses to wait, which it has no reason to.
    pub fn wait(&mut self, limit: Duration, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.wait_for(limit, &others.iter().map(|other| (*other, PollFlags::IN)).collect::<Vec<_>>())
    }

    /// The same, for others that may be waited for otherwise than to be readable.
    ///
    /// # Errors
    /// When the kernel refuses to wait, which it has no reason to.
    pub fn wait_for(&mut self, limit: Duration, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<Woken> {
        if self.rung == Rung::Bell {
            // Back from inotify. To close it takes milliseconds: rather now than when the wait is over.
            self.let_go_of_inotify();
        }
        let most = if self.rung == Rung::Polling { self.poll_interval.min(SLOW_REREAD) } else { SLOW_REREAD };
        let timeout = Timespec::try_from(limit.min(most)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut set = Vec::with_capacity(2 + others.len());
        set.extend(others.iter().map(|(other, flags)| PollFd::from_borrowed_fd(*other, *flags)));
        // A dead bell stays hung up, and would wake at once each time.
        if let Some(bell) = self.bell.as_ref().filter(|bell| bell.is_live()) {
            set.push(PollFd::new(bell, PollFlags::empty()));
        }
        if self.rung == Rung::Inotify
            && let Some(inotify) = &self.inotify
        {
            set.push(PollFd::new(inotify, PollFlags::IN));
        }
        let woken = match poll(&mut set, Some(&timeout)) {
            Ok(0) => Woken::Time,
            Ok(_) => {
                let (others, sources) = set.split_at(others.len());
                let woke = |fds: &[PollFd<'_>]| fds.iter().any(|fd| !fd.revents().is_empty());
                let (by_other, by_source) = (woke(others), woke(sources));
                if by_source || !by_other { Woken::Source } else { Woken::Other }
            }
            Err(rustix::io::Errno::INTR) => Woken::Time,
            Err(error) => return Err(error.into()),
        };
        drop(set);
        // What came since the poll is taken off the queue too, so it must not be passed over.
        let came = self.rung == Rung::Inotify && self.drain();
        Ok(if came { Woken::Source } else { woken })
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
    fn drain(&mut self) -> bool {
        let Some(inotify) = &mut self.inotify else { return false };
        let mut came = false;
        let mut buffer = [0; 4096];
        let gone = inotify::EventMask::IGNORED
            | inotify::EventMask::DELETE_SELF
            | inotify::EventMask::MOVE_SELF
            | inotify::EventMask::UNMOUNT;
        loop {
            match inotify.read_events(&mut buffer) {
                Ok(events) => {
                    let mut any = false;
                    for event in events {
                        any = true;
                        if event.mask.intersects(gone) {
                            // Two paths may name one folder, which has one watch.
                            let lost = |folder: &&mut Folder| folder.watch.as_ref() == Some(&event.wd);
                            self.folders.iter_mut().filter(lost).for_each(|folder| folder.watch = None);
                        }
                    }
                    if !any {
                        return came;
                    }
                    came = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return came,
                Err(_) => {
                    self.let_go_of_inotify();
                    return true;
                }
            }
        }
    }

    fn let_go_of_inotify(&mut self) {
        self.inotify = None;
        self.folders.iter_mut().for_each(|folder| folder.watch = None);
    }
}

fn hung_up(bell: &Bell) -> bool {
    let mut set = [PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::empty())];
    !matches!(poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::bell::Ringer;
    use crate::edge::files::replace;

    fn wake(board: &std::path::Path) -> Wake {
        Wake::new(board.to_owned(), board.join("no-volume"), Duration::from_millis(1))
    }

    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn falls_from_the_bell_to_inotify_when_the_controller_dies_and_climbs_back() {
        let board = tempfile::tempdir().unwrap();
        let mut ringer = Ringer::new(board.path(), names::BELL_FILE);
        ringer.ring().unwrap();
        let mut wake = wake(board.path());
        assert_eq!(wake.arm(true), Rung::Bell);
        drop(ringer);
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
        assert_eq!(wake.arm(true), Rung::Inotify);
        assert!(wake.has_bell() && !wake.controller_lives());
        let mut ringer = Ringer::new(board.path(), names::BELL_FILE);
        ringer.ring().unwrap();
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
        assert_eq!(wake.arm(true), Rung::Bell);
    }

    #[test]
    fn inotify_wakes_when_the_annotations_are_replaced() {
        let board = tempfile::tempdir().unwrap();
        let mut wake = wake(board.path());
        assert_eq!(wake.arm(true), Rung::Inotify);
        replace(board.path(), names::ANNOTATIONS_FILE, b"", 0o644).unwrap();
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
        assert_eq!(wake.wait(Duration::ZERO, &[]).unwrap(), Woken::Time);
    }

    #[test]
    fn polls_where_no_folder_is_there_and_takes_up_inotify_when_it_comes() {
        let above = tempfile::tempdir().unwrap();
        let board = above.path().join("board");
        let mut wake = wake(&board);
        assert_eq!(wake.arm(true), Rung::Polling);
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Time);
        std::fs::create_dir(&board).unwrap();
        assert_eq!(wake.arm(true), Rung::Inotify);
        std::fs::remove_dir(&board).unwrap();
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
        assert_eq!(wake.arm(true), Rung::Polling);
    }

    #[test]
    fn one_folder_under_two_names_is_lost_under_both() {
        let above = tempfile::tempdir().unwrap();
        let board = above.path().join("board");
        std::fs::create_dir(&board).unwrap();
        let mut wake = Wake::new(board.clone(), board.clone(), Duration::from_millis(1));
        assert_eq!(wake.arm(true), Rung::Inotify);
        std::fs::remove_dir(&board).unwrap();
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
        assert_eq!(wake.arm(true), Rung::Polling);
    }

    #[test]
    fn a_bell_of_another_sandbox_does_not_suffice() {
        let board = tempfile::tempdir().unwrap();
        let mut ringer = Ringer::new(board.path(), names::BELL_FILE);
        ringer.ring().unwrap();
        assert_eq!(wake(board.path()).arm(false), Rung::Inotify);
    }

    #[test]
    fn a_bell_replaced_between_arming_and_reading_is_noticed() {
        let board = tempfile::tempdir().unwrap();
        let mut ringer = Ringer::new(board.path(), names::BELL_FILE);
        ringer.ring().unwrap();
        let mut wake = wake(board.path());
        wake.arm(true);
        assert!(wake.still_armed());
        ringer.ring().unwrap();
        assert!(!wake.still_armed());
        assert_eq!(wake.wait(LONG, &[]).unwrap(), Woken::Source);
    }
}

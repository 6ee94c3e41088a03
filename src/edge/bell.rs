//! The bell: a FIFO on the board whose write end the controller holds.
//!
//! To publish, the controller puts the annotations into place, then a new FIFO over the old one, then closes the old one's
//! write end: every waiter wakes by `POLLHUP` within microseconds. Unlike an inotify instance, a FIFO costs nothing to let go
//! of. It is a hint, never data: who tampers with it delays a waiter until its slow re-read.

use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A waiter's end.
#[derive(Debug)]
pub struct Bell {
    path: PathBuf,
    fifo: OwnedFd,
    inode: (u64, u64),
    is_live: bool,
}

impl Bell {
    /// Opens the bell at `path`; `None` if there is none, or what lies there is no FIFO. Never blocks.
    pub fn open(path: &Path) -> Option<Bell> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fifo = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let status = rustix::fs::fstat(&fifo).ok()?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
            return None;
        }
        // End of file: nobody holds the write end. A byte is somebody's who tampers; it says nothing.
        let live = !matches!(rustix::io::read(&fifo, &mut [0u8; 64]), Ok(0));
        Some(Bell { path: path.to_owned(), fifo, inode: (status.st_dev, status.st_ino), is_live: live })
    }

    /// Whether somebody held the write end when it was opened.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether the path still names this FIFO. To be asked after reading the annotations: if not, they may have been replaced
    /// between, and this bell rings no more.
    pub fn is_current(&self) -> bool {
        rustix::fs::lstat(&self.path).is_ok_and(|status| (status.st_dev, status.st_ino) == self.inode)
    }
}

impl AsFd for Bell {
    /// To be polled with no events: only the hang-up wakes, not a byte that a root neighbour wrote.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

/// The controller's end.
#[derive(Debug)]
pub struct Ringer {
    folder: PathBuf,
    name: &'static str,
    write_end: Option<OwnedFd>,
}

impl Ringer {
    /// A ringer of the bell `name` in `folder`, which [`ring`](Ringer::ring) first puts there.
    pub fn new(folder: &Path, name: &'static str) -> Ringer {
        Ringer { folder: folder.to_owned(), name, write_end: None }
    }

    /// Wakes everybody who holds the present bell, and puts a new one into its place.
    ///
    /// # Errors
    /// When the folder can't be written. Waiters of the present bell are woken all the same.
    pub fn ring(&mut self) -> io::Result<()> {
        let fresh = self.replace_fifo();
        // Only now, so that a waiter which wakes finds the new one in place. Dropped on error too: better a dead bell, which
        // sends waiters to the next rung, than one that stays silent.
        self.write_end = None;
        self.write_end = Some(fresh?);
        Ok(())
    }

    fn replace_fifo(&self) -> io::Result<OwnedFd> {
        let temporary = self.folder.join(format!(".{}.tmp", self.name));
        match rustix::fs::unlink(&temporary) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // Its own owner could not open it for writing with the mode that it gets in the end.
        rustix::fs::mknodat(rustix::fs::CWD, &temporary, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fifo = rustix::fs::open(&temporary, flags, Mode::empty())?;
        rustix::fs::fchmod(&fifo, Mode::from_raw_mode(0o444))?;
        rustix::fs::rename(&temporary, self.folder.join(self.name))?;
        Ok(fifo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(bell: &Bell) -> bool {
        let mut set = [PollFd::new(bell, PollFlags::empty())];
        poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    /// A folder with a bell that has been rung once, its path and its ringer.
    fn bell() -> (tempfile::TempDir, PathBuf, Ringer) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bell");
        assert!(Bell::open(&path).is_none());
        let mut ringer = Ringer::new(folder.path(), "bell");
        ringer.ring().unwrap();
        (folder, path, ringer)
    }

    #[test]
    fn ringing_wakes_who_holds_the_old_bell_and_leaves_a_live_one() {
        let (_folder, path, mut ringer) = bell();
        let bell = Bell::open(&path).unwrap();
        assert!(bell.is_live() && bell.is_current() && !rings(&bell));
        ringer.ring().unwrap();
        assert!(rings(&bell) && !bell.is_current());
        assert!(Bell::open(&path).unwrap().is_live());
    }

    #[test]
    fn a_bell_without_its_controller_is_dead_and_does_not_ring() {
        let (_folder, path, ringer) = bell();
        let held = Bell::open(&path).unwrap();
        drop(ringer);
        assert!(rings(&held), "the death is heard");
        let bell = Bell::open(&path).unwrap();
        assert!(!bell.is_live() && bell.is_current() && !rings(&bell));
    }

    #[test]
    fn what_is_no_fifo_is_no_bell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Bell::open(file.path()).is_none());
    }

    #[test]
    fn a_byte_that_somebody_writes_does_not_ring() {
        let (_folder, path, ringer) = bell();
        let bell = Bell::open(&path).unwrap();
        rustix::io::write(ringer.write_end.as_ref().unwrap(), b"x").unwrap();
        assert!(!rings(&bell));
        assert!(Bell::open(&path).unwrap().is_live());
    }
}

//! The bell: a FIFO on the board whose write end the sidecar holds.
//!
//! To publish, the sidecar writes the annotations, replaces the FIFO with a new one, then closes the write end of the
//! old FIFO. `POLLHUP` wakes every waiting agent within microseconds. Unlike an inotify instance, a FIFO is cheap to
//! close. The bell carries no data, so tampering can only delay an agent until its next slow re-read
//! (`watch::reread_interval`).

use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Read end of the bell, held by a waiting agent.
pub struct Bell {
    path: PathBuf,
    fifo: OwnedFd,
    inode: (u64, u64),
    /// True if the write end was open when this bell was opened.
    pub is_live: bool,
}

impl Bell {
    /// Opens the bell at `path`. Returns `None` if the file is missing or not a FIFO. Never blocks.
    pub fn open(path: &Path) -> Option<Bell> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fifo = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let status = rustix::fs::fstat(&fifo).ok()?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
            return None;
        }
        // End of file means that the write end is closed. Data can only come from tampering and is ignored.
        let live = !matches!(rustix::io::read(&fifo, &mut [0u8; 64]), Ok(0));
        Some(Bell { path: path.to_owned(), fifo, inode: (status.st_dev, status.st_ino), is_live: live })
    }

    /// Returns true if the path still refers to this FIFO. Call this after reading the annotations. If the result is
    /// false, read the annotations again: they may have changed, and this bell does not ring for that change.
    pub fn is_current(&self) -> bool {
        rustix::fs::lstat(&self.path).is_ok_and(|status| (status.st_dev, status.st_ino) == self.inode)
    }
}

impl AsFd for Bell {
    /// Returns the FIFO's descriptor. Poll the descriptor without events, so that only the hang-up wakes the agent, not
    /// a byte from another container.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

/// Write end of the bell, held by the sidecar.
#[derive(Debug)]
pub struct Ringer {
    directory: PathBuf,
    name: &'static str,
    write_end: Option<OwnedFd>,
}

impl Ringer {
    /// Creates a ringer for the bell `name` in `directory`. The first call of [`ring`](Ringer::ring) creates the bell.
    pub fn new(directory: &Path, name: &'static str) -> Ringer {
        Ringer { directory: directory.to_owned(), name, write_end: None }
    }

    /// Replaces the bell with a new one and wakes all agents that wait on the old one. Wakes these agents even if the
    /// directory cannot be written.
    pub fn ring(&mut self) -> io::Result<()> {
        let fresh = self.replace_fifo();
        // Close the old bell only after creating the new one, because the woken agents open the new bell at once. Close
        // the old bell on error too: a dead bell makes the agents switch to inotify, whereas a live bell would remain
        // silent.
        self.write_end = None;
        self.write_end = Some(fresh?);
        Ok(())
    }

    fn replace_fifo(&self) -> io::Result<OwnedFd> {
        let temporary = self.directory.join(format!(".{}.tmp", self.name));
        match rustix::fs::unlink(&temporary) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // Open the FIFO before setting its final mode 0444, which denies writing even to the owner.
        rustix::fs::mknodat(rustix::fs::CWD, &temporary, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fifo = rustix::fs::open(&temporary, flags, Mode::empty())?;
        rustix::fs::fchmod(&fifo, Mode::from_raw_mode(0o444))?;
        rustix::fs::rename(&temporary, self.directory.join(self.name))?;
        Ok(fifo)
    }
}

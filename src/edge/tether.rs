//! The tether: a lock in a container's own directory. The lock is held exactly as long as the container's process runs.
//!
//! An open-file-description lock belongs to the open file, not to a process. The lock survives `execve`. The kernel
//! releases the lock when the last descriptor is closed, at the latest when the process ends.

use crate::core::names::TETHER_FILE;
use crate::edge::sys::{OfdLock, ofd_lock};
use crate::edge::{files, lock};
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Lowest number of the inherited descriptor. Programs may expect lower numbers to be free.
const MIN_DESCRIPTOR: i32 = 400;

/// A tether held by this process.
#[must_use = "dropping this releases the tether"]
pub struct Tether(File);

impl Tether {
    /// Takes the tether in the container's own directory. Replaces the file of an earlier process.
    pub fn take(directory: &Path) -> io::Result<Tether> {
        let locked = lock::take(directory, TETHER_FILE)?;
        locked.map(Tether).ok_or_else(|| io::Error::new(io::ErrorKind::WouldBlock, "the tether cannot be locked"))
    }

    /// Returns a copy of the descriptor. The copy survives `execve`, and child processes inherit the copy.
    pub fn inheritable_copy(&self) -> io::Result<OwnedFd> {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.0, MIN_DESCRIPTOR)
            .or_else(|_| self.0.try_clone().map(OwnedFd::from))?;
        rustix::io::fcntl_setfd(&copy, FdFlags::empty())?;
        Ok(copy)
    }
}

/// Returns true if a process holds the tether in the directory `name` beneath `root`. Returns false if the tether is
/// missing or not a regular file. Never blocks and follows no links.
pub fn is_taken(root: &Path, name: &str) -> bool {
    let query = || -> io::Result<bool> {
        let root = files::open_directory(root)?;
        let file = files::open_file_beneath(root.as_fd(), &Path::new(name).join(TETHER_FILE), OFlags::RDONLY)?;
        ofd_lock(file.as_fd(), OfdLock::QueryWrite)
    };
    query().unwrap_or(false)
}

//! Open-file-description locks on named files. The kernel releases a lock when the holder's process ends.
//!
//! Another container can open a file through a read-only mount and keep a read lock, which blocks the write lock. So a
//! process locks a new file before the file gets its name. A query tests the file that has the name at that time.
//!
//! The tether is such a lock in a container's own directory. It is held exactly as long as the container's process
//! runs: the lock belongs to the open file, not to a process, so it survives `execve`, and the kernel releases it when
//! the last descriptor is closed, at the latest when the process ends.

use crate::core::names::TETHER_FILE;
use crate::edge::files;
use crate::edge::sys::{is_write_locked, take_write_lock};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Lowest number of the inherited descriptor. Programs may expect lower numbers to be free.
const MIN_DESCRIPTOR: i32 = 400;

/// Takes the write lock on the file `name` in `directory` until the returned file is closed. Replaces an earlier file
/// and its locks. Returns `None` if no file can be created and another process has locked the existing file.
pub fn take_over(directory: &Path, name: &str) -> io::Result<Option<File>> {
    let directory = files::open_directory_following_links(directory)?;
    if let Ok(file) = create_locked(&directory, name) {
        return Ok(Some(file.into()));
    }
    // The volume is full, or its file system lacks O_TMPFILE. Lock the file `name` itself.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(0o644))?;
    Ok(take_write_lock(file.as_fd())?.then(|| file.into()))
}

fn create_locked(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o644))?;
    // Override the umask, because other containers must be able to query the lock.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    if !take_write_lock(file.as_fd())? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let temporary = format!(".{name}.tmp");
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let link = || rustix::fs::linkat(rustix::fs::CWD, &own, directory, &temporary, AtFlags::SYMLINK_FOLLOW);
    match link() {
        // A process was killed before it could rename this file, so remove the file.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(directory, &temporary, AtFlags::empty())?;
            link()?;
        }
        other => other?,
    }
    rustix::fs::renameat(directory, &temporary, directory, name)?;
    Ok(file)
}

/// Returns true if a process holds the write lock on the file `path`, and false if the file is missing.
pub fn is_taken(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => is_write_locked(file.as_fd()),
        // Another container has a lease on the file (F_SETLEASE). The kernel denies such a lease while a process has
        // the file open, so no process holds the lock.
        Err(Errno::NOENT | Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A tether held by this process.
#[must_use = "dropping this releases the tether"]
pub struct Tether(File);

impl Tether {
    /// Takes the tether in the container's own directory. Replaces the file of an earlier process. Fails with
    /// `WouldBlock` if another process has the tether and the file cannot be replaced.
    pub fn take_over(directory: &Path) -> io::Result<Tether> {
        let locked = take_over(directory, TETHER_FILE)?;
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
pub fn is_tethered(root: &Path, name: &str) -> bool {
    let query = || -> io::Result<bool> {
        let root = files::open_directory_following_links(root)?;
        let file = files::open_file_beneath(root.as_fd(), &Path::new(name).join(TETHER_FILE), OFlags::RDONLY)?;
        is_write_locked(file.as_fd())
    };
    query().unwrap_or(false)
}

//! Open-file-description locks on named files. The kernel releases a lock when the holder's process ends.
//!
//! Another container can open a file through a read-only mount and keep a read lock, which blocks the write lock. So a
//! process locks a new file before the file gets its name. A query tests the file that has the name at that time.

use crate::edge::files;
use crate::edge::sys::{OfdLock, ofd_lock};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Takes the write lock on the file `name` in `directory`. Replaces an earlier file and its locks. The lock is held
/// until the returned file is closed. Returns `None` if no file can be created and another process has locked the
/// existing file.
pub fn take(directory: &Path, name: &str) -> io::Result<Option<File>> {
    let directory = files::open_directory(directory)?;
    if let Ok(file) = create_locked(&directory, name) {
        return Ok(Some(file.into()));
    }
    // The volume is full, or its file system lacks O_TMPFILE. Lock the file `name` itself.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(0o644))?;
    Ok(ofd_lock(file.as_fd(), OfdLock::TakeWrite)?.then(|| file.into()))
}

fn create_locked(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o644))?;
    // Override the umask, because other containers must be able to query the lock.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    if !ofd_lock(file.as_fd(), OfdLock::TakeWrite)? {
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
        Ok(file) => ofd_lock(file.as_fd(), OfdLock::QueryWrite),
        // Another container has a lease on the file (F_SETLEASE). The kernel denies such a lease while a process has
        // the file open, so no process holds the lock.
        Err(Errno::NOENT | Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

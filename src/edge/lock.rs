//! Open-file-description locks on files of the board. The kernel releases them when the holder's process ends.

use crate::edge::sys::{OfdLock, ofd_lock};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// A held lock, released on drop.
#[derive(Debug)]
#[must_use = "dropping this releases the lock"]
pub struct HeldLock {
    _file: File,
}

/// Takes the write lock on `path`. Creates a missing file. Returns `None` if another process holds the lock.
pub fn take(path: &Path) -> io::Result<Option<HeldLock>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?);
    let taken = ofd_lock(file.as_fd(), OfdLock::TakeWrite)?;
    Ok(taken.then_some(HeldLock { _file: file }))
}

/// Returns true if a process holds the write lock on `path`, and false if the file is missing.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => ofd_lock(file.as_fd(), OfdLock::QueryWrite),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Open-file-description locks on files of the board: held by whoever lives, gone with its process.

use crate::edge::sys::{OfdLock, ofd_lock};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// A held lock; dropping it lets go.
#[derive(Debug)]
#[must_use = "the lock is let go when this is dropped"]
pub struct HeldLock {
    _file: File,
}

/// Takes the write lock on `path`, making the file where it is missing; `None` if another holds it.
///
/// # Errors
/// When the file can't be made or opened.
pub fn take(path: &Path) -> io::Result<Option<HeldLock>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?);
    let taken = ofd_lock(file.as_fd(), OfdLock::TakeWrite)?;
    Ok(taken.then_some(HeldLock { _file: file }))
}

/// Whether anybody holds the write lock on `path`. A file that is missing is held by nobody.
///
/// # Errors
/// When the file is there and can't be asked.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => ofd_lock(file.as_fd(), OfdLock::QueryWrite),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_lives_as_long_as_its_holder_and_shuts_out_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("controller");
        assert!(!is_held(&path).unwrap());
        let held = take(&path).unwrap().unwrap();
        assert!(is_held(&path).unwrap());
        assert!(take(&path).unwrap().is_none());
        drop(held);
        assert!(!is_held(&path).unwrap());
        assert!(take(&path).unwrap().is_some());
    }
}

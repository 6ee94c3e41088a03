//! The tether: a lock in a container's own folder held exactly as long as the container's process runs.
//!
//! An open-file-description lock belongs to the open file, not to a process. The lock survives `execve`, and the kernel
//! releases it when the last descriptor is closed, at the latest when the process ends. The lock is taken before the
//! file gets its name, so that no other process can take it first.

use crate::core::names::TETHER_FILE;
use crate::edge::files;
use crate::edge::sys::{OfdLock, ofd_lock};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Lowest number of the inherited descriptor. Programs may expect lower numbers to be free.
const MIN_DESCRIPTOR: i32 = 400;

/// A tether held by this process.
#[derive(Debug)]
#[must_use = "dropping this releases the tether"]
pub struct Tether {
    file: OwnedFd,
}

impl Tether {
    /// Takes the tether in the container's own folder. Replaces the file of an earlier process.
    pub fn take(folder: &Path) -> io::Result<Tether> {
        let handle = files::open_folder(folder)?;
        match create_locked(&handle) {
            Ok(file) => Ok(Tether { file }),
            // The volume is full, or the file system lacks O_TMPFILE: use the file that the sidecar created.
            Err(_) => {
                let file = files::open_file_beneath(handle.as_fd(), Path::new(TETHER_FILE), OFlags::RDWR)?;
                if !ofd_lock(file.as_fd(), OfdLock::TakeWrite)? {
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, "the tether can't be locked"));
                }
                Ok(Tether { file: file.into() })
            }
        }
    }

    /// Returns a copy of the descriptor that survives `execve` and is inherited by children.
    pub fn inheritable_copy(&self) -> io::Result<OwnedFd> {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.file, MIN_DESCRIPTOR).or_else(|_| self.file.try_clone())?;
        rustix::io::fcntl_setfd(&copy, FdFlags::empty())?;
        Ok(copy)
    }
}

fn create_locked(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(0o644))?;
    // Override the umask, because the sidecar must be able to query the lock.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    if !ofd_lock(file.as_fd(), OfdLock::TakeWrite)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let temporary = format!(".{TETHER_FILE}.tmp");
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let link = || rustix::fs::linkat(rustix::fs::CWD, &own, folder, &temporary, AtFlags::SYMLINK_FOLLOW);
    match link() {
        // A process was killed between the two steps and has left this file behind.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(folder, &temporary, AtFlags::empty())?;
            link()?;
        }
        other => other?,
    }
    rustix::fs::renameat(folder, &temporary, folder, TETHER_FILE)?;
    Ok(file)
}

/// Returns true if a process holds the tether in the folder `name` beneath `root`. Returns false if the tether is
/// missing or not a regular file. Never blocks and follows no links.
pub fn is_held(root: &Path, name: &str) -> bool {
    let query = || -> io::Result<bool> {
        let root = files::open_folder(root)?;
        let file = files::open_file_beneath(root.as_fd(), &Path::new(name).join(TETHER_FILE), OFlags::RDONLY)?;
        ofd_lock(file.as_fd(), OfdLock::QueryWrite)
    };
    query().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("db")).unwrap();
        root
    }

    #[test]
    fn existing_file_is_used_if_none_can_be_created() {
        let root = folder();
        let db = root.path().join("db");
        std::fs::write(db.join(TETHER_FILE), "").unwrap();
        // The temporary name is a folder, which can't be unlinked.
        std::fs::create_dir(db.join(format!(".{TETHER_FILE}.tmp"))).unwrap();
        let tether = Tether::take(&db).unwrap();
        assert!(is_held(root.path(), "db"));
        assert!(Tether::take(&db).is_err(), "the lock is already held");
        drop(tether);
    }

    #[test]
    fn tether_other_than_a_regular_file_is_not_held() {
        let root = folder();
        let path = root.path().join("db").join(TETHER_FILE);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(!is_held(root.path(), "db"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert!(!is_held(root.path(), "db"));
        assert!(!is_held(root.path(), "ghost"));
    }
}

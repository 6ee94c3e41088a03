//! Tethers: a lock in a container's own folder that lives exactly as long as the container's process, however that ends.
//!
//! An open-file-description lock belongs to the open file, not to a process: it survives `execve`, and the kernel drops it when
//! the last descriptor is closed, at the latest when the process is gone. It is taken before the file can be seen, so nobody can
//! be there first.

use crate::core::names::TETHER_FILE;
use crate::edge::files;
use crate::edge::sys::{OfdLock, ofd_lock};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Lowest number of the descriptor that a program inherits: out of the way of those that it may expect at fixed places.
const MIN_DESCRIPTOR: i32 = 400;

/// A tether that this process holds.
#[derive(Debug)]
#[must_use = "the tether drops when this is dropped"]
pub struct Tether {
    file: OwnedFd,
}

impl Tether {
    /// Takes the tether of the container whose own folder `folder` is, over one that a dead process has left.
    ///
    /// # Errors
    /// When the folder can't be written, or the lock can't be had.
    pub fn take(folder: &Path) -> io::Result<Tether> {
        let handle = files::open_folder(folder)?;
        match create_locked(&handle) {
            Ok(file) => Ok(Tether { file }),
            // A neighbour has filled the volume, or the file system has no unnamed files: the file that the controller made.
            Err(_) => {
                let file = files::open_file_beneath(handle.as_fd(), Path::new(TETHER_FILE), OFlags::RDWR)?;
                if !ofd_lock(file.as_fd(), OfdLock::TakeWrite)? {
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, "the tether can't be locked"));
                }
                Ok(Tether { file: file.into() })
            }
        }
    }

    /// Lets a program that this process becomes, or starts, inherit it.
    ///
    /// # Errors
    /// When no descriptor is to be had.
    pub fn inheritable_copy(&self) -> io::Result<OwnedFd> {
        let copy = rustix::io::fcntl_dupfd_cloexec(&self.file, MIN_DESCRIPTOR).or_else(|_| self.file.try_clone())?;
        rustix::io::fcntl_setfd(&copy, FdFlags::empty())?;
        Ok(copy)
    }
}

fn create_locked(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, ".", flags, Mode::from_raw_mode(0o644))?;
    // The umask does not count: whoever's folder it is, the controller must be able to ask.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    if !ofd_lock(file.as_fd(), OfdLock::TakeWrite)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let temporary = format!(".{TETHER_FILE}.tmp");
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let link = || rustix::fs::linkat(rustix::fs::CWD, &own, folder, &temporary, AtFlags::SYMLINK_FOLLOW);
    match link() {
        // Left by one that was killed between the two steps.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(folder, &temporary, AtFlags::empty())?;
            link()?;
        }
        other => other?,
    }
    rustix::fs::renameat(folder, &temporary, folder, TETHER_FILE)?;
    Ok(file)
}

/// Whether anybody holds the tether in the folder `name` beneath `root`. What is missing, or is no regular file, is held by
/// nobody. Never blocks, follows no link.
pub fn is_held(root: &Path, name: &str) -> bool {
    let asked = || -> io::Result<bool> {
        let root = files::open_folder(root)?;
        let file = files::open_file_beneath(root.as_fd(), &Path::new(name).join(TETHER_FILE), OFlags::RDONLY)?;
        ofd_lock(file.as_fd(), OfdLock::QueryWrite)
    };
    asked().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("db")).unwrap();
        root
    }

    #[test]
    fn is_held_as_long_as_its_holder_lives_and_can_be_taken_anew() {
        let root = folder();
        assert!(!is_held(root.path(), "db"));
        let first = Tether::take(&root.path().join("db")).unwrap();
        assert!(is_held(root.path(), "db"));
        // An incarnation that starts before the last one's descriptor is gone.
        let second = Tether::take(&root.path().join("db")).unwrap();
        drop(first);
        assert!(is_held(root.path(), "db"));
        drop(second);
        assert!(!is_held(root.path(), "db"));
        assert_eq!(std::fs::read_dir(root.path().join("db")).unwrap().count(), 1);
    }

    #[test]
    fn a_program_inherits_it() {
        let root = folder();
        let tether = Tether::take(&root.path().join("db")).unwrap();
        let copy = tether.inheritable_copy().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        drop((copy, tether));
        assert!(is_held(root.path(), "db"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_held(root.path(), "db"));
    }

    #[test]
    fn a_file_that_lies_there_serves_where_no_new_one_can_be_made() {
        let root = folder();
        let db = root.path().join("db");
        std::fs::write(db.join(TETHER_FILE), "").unwrap();
        // The temporary name is taken by what can't be unlinked.
        std::fs::create_dir(db.join(format!(".{TETHER_FILE}.tmp"))).unwrap();
        let tether = Tether::take(&db).unwrap();
        assert!(is_held(root.path(), "db"));
        assert!(Tether::take(&db).is_err(), "another holds it");
        drop(tether);
    }

    #[test]
    fn what_is_no_file_is_held_by_nobody() {
        let root = folder();
        let path = root.path().join("db").join(TETHER_FILE);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(!is_held(root.path(), "db"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert!(!is_held(root.path(), "db"));
        assert!(!is_held(root.path(), "nobody"));
    }
}

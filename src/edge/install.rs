//! Putting a binary somewhere, in one step and executable by everybody.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Copies the program `from` to `folder/name` with mode 0555, over whatever is there, so that a reader finds the old one or the
/// whole new one. A folder that is missing is made (mode 0755).
///
/// # Errors
/// When `from` can't be read, or the folder can't be written; nothing half-written is left.
pub fn install(from: &Path, folder: &Path, name: &str) -> io::Result<PathBuf> {
    if !folder.is_dir() {
        std::fs::create_dir_all(folder)?;
        rustix::fs::chmod(folder, Mode::from_raw_mode(0o755))?;
    }
    let mut source = File::open(from)?;
    let (target, temporary) = (folder.join(name), folder.join(format!(".{name}.tmp")));
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copied = || -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&temporary, flags, Mode::from_raw_mode(0o700))?);
        io::copy(&mut source, &mut file)?;
        rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(0o555))?;
        // A descriptor that is open for writing makes an exec fail with ETXTBSY.
        drop(file);
        std::fs::rename(&temporary, &target)
    };
    copied().inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn installs_over_what_is_there_with_mode_0555() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        for _ in 0..2 {
            let at = install(Path::new("/proc/self/exe"), &bin, "podgate").unwrap();
            assert_eq!(std::fs::metadata(&at).unwrap().permissions().mode() & 0o7777, 0o555);
            assert_eq!(std::fs::read(&at).unwrap(), std::fs::read("/proc/self/exe").unwrap());
        }
        assert_eq!(std::fs::read_dir(&bin).unwrap().count(), 1);
    }

    #[test]
    fn leaves_nothing_behind_when_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        assert!(install(Path::new("/nonexistent"), folder.path(), "podgate").is_err());
        std::fs::create_dir(folder.path().join("podgate")).unwrap();
        assert!(install(Path::new("/proc/self/exe"), folder.path(), "podgate").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

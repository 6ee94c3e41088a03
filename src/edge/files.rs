//! Safe reads of files that another container may have written, and atomic writes.
//!
//! Reads of untrusted files follow no links, never block and limit the size. [`replace`] uses `rename(2)`, so that a
//! reader never sees a partial file.

use crate::core::annotations::PAGE_SIZE;
use crate::edge::process::random_id;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Opens the directory `path` to access files beneath it. Follows links in `path`.
pub fn open_directory_following_links(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens `name` beneath `directory`. `name` may be a path with several components. Follows no links and never blocks.
/// Fails if a component is a link.
pub fn open_beneath(directory: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // openat2 rejects meaningless combinations, such as O_NONBLOCK with O_PATH.
    let nonblock = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK };
    let flags = flags | nonblock | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
        Ok(file) => Ok(file),
        // Kernels before 5.6 and some sandboxes lack openat2. Open one path component after the other instead,
        // following no links.
        Err(Errno::NOSYS | Errno::PERM) => open_stepwise(directory, name, flags),
        Err(error) => Err(error.into()),
    }
}

/// Opens the regular file `name` beneath `directory`, like [`open_beneath`].
pub fn open_file_beneath(directory: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<File> {
    let file = File::from(open_beneath(directory, name, flags)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Returns false if the kernel's cache does not contain `path`: the path does not exist, or is in a remote file system.
/// Returns true if the kernel lacks this lookup (Linux before 5.12, or a sandbox without openat2). Never waits.
pub fn may_be_cached(path: &str) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    !matches!(found, Err(Errno::AGAIN | Errno::NOENT))
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

fn open_stepwise(directory: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match name.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => {
            let inner = open_stepwise(directory, parent, step)?;
            let file = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            Ok(rustix::fs::openat(inner, file, flags, Mode::empty())?)
        }
        None => Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?),
    }
}

/// Reads the regular file `name` beneath `directory`. Fails if the file is larger than `max` bytes.
pub fn read_beneath(directory: BorrowedFd<'_>, name: &Path, max: usize) -> io::Result<Vec<u8>> {
    read_capped(File::from(open_beneath(directory, name, OFlags::RDONLY)?), max)
}

/// Reads the regular file at `path` and follows links. Use this only for paths that containers cannot write. Fails if
/// the file is larger than `max` bytes.
pub fn read_following_links(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    read_capped(File::from(rustix::fs::open(path, flags, Mode::empty())?), max)
}

fn read_capped(file: File, max: usize) -> io::Result<Vec<u8>> {
    let status = file.metadata()?;
    if !status.is_file() {
        return Err(not_regular());
    }
    let expected = usize::try_from(status.len()).unwrap_or(usize::MAX).min(max);
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {max} bytes")));
    }
    Ok(bytes)
}

/// Opens an output of a process, such as `/proc/1/fd/2` or `/dev/stderr`, for appending. Fails if the output is a file,
/// because the file may be on a mount that does not answer. Reads the targets of links to find out the kind of output
/// before opening it.
pub fn open_pipe_or_device(path: &Path) -> io::Result<File> {
    let mut shown = path.to_owned();
    // /dev/stderr is a link to a link.
    for _ in 0..3 {
        if shown.starts_with("/dev") || shown.starts_with("/proc") {
            shown = match std::fs::read_link(&shown) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => shown,
                target => target?,
            };
        }
    }
    let is_device = ["/dev", "/dev/pts"].map(|directory| Some(Path::new(directory))).contains(&shown.parent());
    if shown.is_absolute() && !is_device {
        return Err(io::Error::other(format!("{} is neither a pipe nor a device", shown.display())));
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags | link_flag(path), Mode::empty()) {
        Err(Errno::NXIO) => return Err(io::Error::other("not a file, or a FIFO without a reader")),
        other => File::from(other?),
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let is_valid = matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice);
    if is_valid { Ok(file) } else { Err(not_regular()) }
}

/// Returns the flag that rejects a link at `path`. Returns no flag if only the kernel and the runtime create links in
/// the directory of `path`.
pub fn link_flag(path: &Path) -> OFlags {
    let is_system = |directory: &Path| directory == Path::new("/dev") || directory.starts_with("/proc");
    if path.parent().is_some_and(is_system) { OFlags::empty() } else { OFlags::NOFOLLOW }
}

/// Replaces the file `name` in `directory` atomically. Omits `fsync`, because the volumes are in memory. On failure, no
/// partial file is left under `name`.
///
/// Returns the new file, still open: for reading if the file is a program, otherwise for writing. While the file is
/// open, the kernel denies leases on it (`F_SETLEASE`) to other processes. With a lease, a process of the same user id
/// could delay the readers of the file.
pub fn replace(directory: &Path, name: &str, content: &[u8], mode: u32) -> io::Result<File> {
    replace_via(directory, &format!(".{name}.tmp"), name, content, mode)
}

/// Replaces the file like [`replace`], but through the file `temporary`. If a file has two writers, each writer needs
/// its own temporary file.
pub fn replace_via(directory: &Path, temporary: &str, name: &str, content: &[u8], mode: u32) -> io::Result<File> {
    let directory = open_directory_following_links(directory)?;
    // Remove the temporary file of a writer that was killed.
    let temporary = match rustix::fs::unlinkat(directory.as_fd(), temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => temporary.to_owned(),
        // The path cannot be removed, for example because it is a directory.
        Err(_) => format!("{temporary}.{}", random_id(4)?),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = || -> io::Result<File> {
        let file = rustix::fs::openat(directory.as_fd(), &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        file.write_all(content)?;
        rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(mode))?;
        if mode & 0o111 != 0 {
            // An open write descriptor would make exec fail with ETXTBSY.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            file = rustix::fs::openat(directory.as_fd(), &temporary, flags, Mode::empty())?.into();
        }
        rustix::fs::renameat(directory.as_fd(), &temporary, directory.as_fd(), name)?;
        Ok(file)
    };
    written().inspect_err(|_| _ = rustix::fs::unlinkat(directory.as_fd(), &temporary, AtFlags::empty()))
}

/// Writes `program` to `directory/name` (mode 0555), replacing any file. Creates a missing directory (mode 0755). On
/// failure, no partial file is left. Returns the installed file.
pub fn install(program: &[u8], directory: &Path, name: &str) -> io::Result<File> {
    if !directory.is_dir() {
        std::fs::create_dir_all(directory)?;
        rustix::fs::chmod(directory, Mode::from_raw_mode(0o755))?;
    }
    replace(directory, name, program, 0o555)
}

/// Returns the size in bytes of the file `name` in `directory`, at most `max`; 0 if the file is missing.
pub fn size(directory: &Path, name: &str, max: usize) -> usize {
    let size = rustix::fs::lstat(directory.join(name)).map_or(0, |status| status.st_size);
    usize::try_from(size).unwrap_or(0).min(max)
}

/// Replaces the file like [`replace_via`]. If the volume is full, overwrites the file in place and returns `None`.
/// Readers may then see a torn file, so [pad](crate::core::annotations::pad_with_hash) `padded` to the file's size.
pub fn replace_or_overwrite(
    directory: &Path,
    temporary: &str,
    name: &str,
    padded: &[u8],
    mode: u32,
) -> io::Result<Option<File>> {
    match replace_via(directory, temporary, name, padded, mode) {
        Err(error) if is_full(&error) => overwrite(directory, name, padded).map(|()| None),
        other => other.map(Some),
    }
}

/// Returns true if the error means that the volume is full, or that a quota is used up.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Overwrites the file `name` in `directory` in place. Fails and changes nothing in two cases:
///
/// - The content needs more pages than the file has, because a full volume cannot extend the file.
/// - The content is shorter than the file, so the end of the old content would remain.
pub fn overwrite(directory: &Path, name: &str, padded: &[u8]) -> io::Result<()> {
    let directory = open_directory_following_links(directory)?;
    let mut file = open_file_beneath(directory.as_fd(), Path::new(name), OFlags::WRONLY)?;
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if !(size..=size.next_multiple_of(PAGE_SIZE)).contains(&padded.len()) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_step_follows_a_link() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::fs::write(directory.path().join("d/file"), "f").unwrap();
        symlink("d", directory.path().join("dirlink")).unwrap();
        symlink("d/file", directory.path().join("link")).unwrap();
        let handle = open_directory_following_links(directory.path()).unwrap();
        let stepwise = |name: &str| open_stepwise(handle.as_fd(), Path::new(name), OFlags::RDONLY | OFlags::NOFOLLOW);
        assert!(stepwise("d/file").is_ok());
        assert!(stepwise("dirlink/file").is_err() && stepwise("link").is_err());
    }
}

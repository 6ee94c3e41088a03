//! Creates a container's directory and reads the report there. The container can write anything into this directory, so
//! the sidecar validates the content.

use podgate::core::names;
use podgate::core::report::Report;
use podgate::edge::files;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tracing::debug;

/// Identifies a version of a file by inode and ctime (seconds, nanoseconds). Replacing the file changes at least one of
/// these values.
pub(crate) type FileVersion = (u64, i64, i64);

/// Content of a container's directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DirectoryState {
    pub(crate) report: Option<Report>,
    /// True if the report file was replaced since the last check.
    pub(crate) is_rewritten: bool,
    pub(crate) is_tethered: bool,
    /// True if a socket listens on the container's port. Checked only after a release of the tether.
    pub(crate) is_listening: bool,
}

/// Creates a container's directory, and creates its tether and report files in advance, with `report_size` bytes for
/// the report.
pub(crate) fn make_container_directory(path: &Path, report_size: usize) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o777)) {
        // The container may run with any user id, so any user may write. Only that container mounts this directory. Use
        // chmod, because the umask limits the mode of mkdir.
        Ok(()) => rustix::fs::chmod(path, Mode::from_raw_mode(0o777))?,
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Another container may fill the volume later. The padded file reserves the space for this container's report.
    let report = Report::default().to_padded_text(report_size);
    for (name, text) in [(names::TETHER_FILE, String::new()), (names::REPORT_FILE, report)] {
        if let Err(error) = create_file(&path.join(name), text.as_bytes()) {
            debug!(%error, path = %path.display(), name, "cannot reserve a file");
        }
    }
    Ok(())
}

/// Creates a file that any user can write. Keeps an existing file, which the container may have written.
fn create_file(path: &Path, content: &[u8]) -> io::Result<()> {
    match File::create_new(path) {
        Ok(mut file) => {
            file.set_permissions(PermissionsExt::from_mode(0o666))?;
            file.write_all(content)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads the report of container `name`. Returns no report if the file is invalid. Fails if the file is missing.
pub(crate) fn read_report(root: &Path, name: &str) -> io::Result<(FileVersion, Option<Report>)> {
    let root = files::open_directory_following_links(root)?;
    let path = Path::new(name).join(names::REPORT_FILE);
    let handle = files::open_beneath(root.as_fd(), &path, OFlags::PATH)?;
    let metadata = File::from(handle).metadata()?;
    let stamp = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
    // Treat a report that is truncated, too long or not a regular file as missing. Do not fall back to the previous
    // report.
    let bytes = files::read_beneath(root.as_fd(), &path, names::BOARD_FILE_MAX);
    Ok((stamp, bytes.ok().and_then(|bytes| Report::parse(&bytes).ok())))
}

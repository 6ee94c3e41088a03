//! `--post-file`: records how a command ended, for containers that wait for it with `--check file://`.

use crate::failure::Failure;
use podgate::core::exit::Exit;
use podgate::edge::files::replace;
use std::io;
use std::path::Path;

/// Rejects an invalid path before the command runs.
pub(super) fn validate_path(path: &Path) -> Result<(), Failure> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(_) if !path.as_os_str().as_encoded_bytes().ends_with(b"/") => Ok(()),
        _ => Err(Failure::new(Exit::BadSetup, format!("--post-file {}: not a file name", path.display()))),
    }
}

/// Writes `code` atomically to `path`, or to `path.err` on failure. Then removes the other file, if an earlier run has
/// left one.
pub(super) fn write(path: &Path, success: bool, code: u8) -> io::Result<()> {
    let failed = path.with_added_extension("err");
    let (this, other) = if success { (path, failed.as_path()) } else { (failed.as_path(), path) };
    let name = this.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = this.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replace(folder, name, format!("{code}\n").as_bytes(), 0o644)?;
    let _ = std::fs::remove_file(other);
    Ok(())
}

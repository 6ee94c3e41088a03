//! `--post-file`: records how a command ended, for containers that wait for the file with `--check file://`.

use crate::check::run_to_end;
use crate::failure::Failure;
use podgate::core::argv::Argv;
use podgate::core::exit::Exit;
use podgate::edge::files::replace;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Time limit for writing the post file, because the volume may not answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Rejects an invalid path before the command runs.
pub(crate) fn validate_path(path: &Path) -> Result<(), Failure> {
    match path.file_name().and(path.to_str()) {
        Some(text) if !text.ends_with('/') => Ok(()),
        _ => Err(Failure::new(Exit::BadSetup, format!("--post-file {}: not a file name", path.display()))),
    }
}

/// Writes the post file in a child process, because the volume may not answer. The error is a short description.
pub(super) fn write_in_child(path: &Path, success: bool, code: u8) -> Result<(), Failure> {
    let (path, code) = (path.display().to_string(), code.to_string());
    let words = [crate::OWN_PROGRAM, "post-file"].into_iter().chain(success.then_some("--success"));
    let words = words.chain(["--", &path, &code]).map(str::to_owned);
    let argv = Argv::new(words.collect()).map_err(|error| error.to_string())?;
    run_to_end(&argv, WRITE_TIMEOUT, false)
}

/// Writes `code` atomically to `path`, or to `path.err` on failure. Then removes the other file, if an earlier run has
/// left one.
pub(crate) fn write(path: &Path, success: bool, code: u8) -> Result<(), Failure> {
    let failed = path.with_added_extension("err");
    let (this, other) = if success { (path, failed.as_path()) } else { (failed.as_path(), path) };
    let written = || -> io::Result<()> {
        let name = this.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = this.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        replace(directory, name, format!("{code}\n").as_bytes(), 0o644).map(drop)
    };
    written().map_err(|error| Failure::new(Exit::BadSetup, error.to_string()))?;
    let _ = std::fs::remove_file(other);
    Ok(())
}

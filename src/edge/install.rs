//! Installs a binary atomically, with permission for all users to execute it.

use crate::edge::files::replace;
use rustix::fs::Mode;
use std::fs::File;
use std::io;
use std::path::Path;

/// Copies the program `from` to `directory/name` (mode 0555), replacing any file. Creates a missing directory (mode
/// 0755). On failure, no partial file is left. Returns the installed file.
pub fn install(from: &Path, directory: &Path, name: &str) -> io::Result<File> {
    if !directory.is_dir() {
        std::fs::create_dir_all(directory)?;
        rustix::fs::chmod(directory, Mode::from_raw_mode(0o755))?;
    }
    replace(directory, name, &std::fs::read(from)?, 0o555)
}

//! Installs a binary atomically, with permission for all users to execute it.

use crate::edge::files::replace;
use rustix::fs::Mode;
use std::fs::File;
use std::io;
use std::path::Path;

/// Copies the program `from` to `folder/name` (mode 0555), replacing any file. Creates a missing folder (mode 0755). On
/// failure, no partial file is left. Returns the installed file.
pub fn install(from: &Path, folder: &Path, name: &str) -> io::Result<File> {
    if !folder.is_dir() {
        std::fs::create_dir_all(folder)?;
        rustix::fs::chmod(folder, Mode::from_raw_mode(0o755))?;
    }
    replace(folder, name, &std::fs::read(from)?, 0o555)
}

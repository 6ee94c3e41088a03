//! Installs a binary atomically, with permission for all users to execute it.

use crate::edge::files::replace;
use rustix::fs::Mode;
use std::fs::File;
use std::io;
use std::path::Path;

/// Writes `program` to `directory/name` (mode 0555), replacing any file. Creates a missing directory (mode 0755). On
/// failure, no partial file is left. Returns the installed file.
pub fn install(program: &[u8], directory: &Path, name: &str) -> io::Result<File> {
    if !directory.is_dir() {
        std::fs::create_dir_all(directory)?;
        rustix::fs::chmod(directory, Mode::from_raw_mode(0o755))?;
    }
    replace(directory, name, program, 0o555)
}

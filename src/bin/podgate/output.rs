//! One-line messages on standard error and in the termination message. Kubernetes discards a hook's output, so users
//! find the reason for a wait or a failure in the termination message.

use podgate::core::{names, text};
use podgate::edge::files::link_flag;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const PREFIX: &str = "podgate";

/// Returns `text` as one line without control characters, shortened to the limit for a hook's output.
pub(crate) fn short_line(text: &str) -> String {
    text::one_line(text, names::HOOK_OUTPUT_MAX)
}

/// Writes `line` to standard error and ignores errors. `eprintln!` would panic on a closed pipe.
pub(crate) fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes `line` as the termination message, if the file `path` exists. Ignores errors.
pub(crate) fn write_termination_message(path: Option<&Path>, line: &str) {
    if let Some(mut file) = open_existing(path, OFlags::WRONLY | OFlags::TRUNC) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Clears the termination message if podgate has written it.
pub(crate) fn clear_termination_message(path: Option<&Path>) {
    let Some(mut file) = open_existing(path, OFlags::RDWR) else { return };
    let mut start = [0; PREFIX.len()];
    if file.read_exact(&mut start).is_ok() && start == PREFIX.as_bytes() {
        let _ = file.set_len(0);
    }
}

fn open_existing(path: Option<&Path>, flags: OFlags) -> Option<File> {
    let path = path?;
    // Never create the file: outside of a container, there is no termination message.
    let flags = flags | link_flag(path) | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

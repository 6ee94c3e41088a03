//! The reason for a wait or a failure, in one line, where people look: Kubernetes throws a hook's output away.

use podgate::core::{names, text};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const PREFIX: &str = "podgate";

/// `text` without control characters, cut to what a hook may write.
pub(crate) fn one_line(text: &str) -> String {
    text::one_line(text, names::HOOK_OUTPUT_MAX)
}

/// Writes `line` to standard error; that nobody may hold the other end any more is no reason to panic.
pub(crate) fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Makes `line` the container's termination message. A place that can't be written is passed over: it is not podgate's.
pub(crate) fn write_termination_message(path: &Path, line: &str) {
    if let Some(mut file) = open_existing(path, OFlags::WRONLY | OFlags::TRUNC) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Empties the termination message if it is podgate's.
pub(crate) fn clear_termination_message(path: &Path) {
    let Some(mut file) = open_existing(path, OFlags::RDWR) else { return };
    let mut start = [0; PREFIX.len()];
    if file.read_exact(&mut start).is_ok() && start == PREFIX.as_bytes() {
        let _ = file.set_len(0);
    }
}

fn open_existing(path: &Path, flags: OFlags) -> Option<File> {
    // Never made anew: outside a container there is none, and none shall be.
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_message_is_taken_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write_termination_message(file.path(), "podgate post-start: db: waits");
        clear_termination_message(file.path());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
        std::fs::write(file.path(), "the program's own").unwrap();
        clear_termination_message(file.path());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "the program's own");
        write_termination_message(Path::new("/nonexistent/x"), "podgate");
    }
}

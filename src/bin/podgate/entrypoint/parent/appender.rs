//! A child process that writes the copy of an output stream, because the file's mount may not answer.

use super::child::inherited_pipe;
use podgate::edge::files::open_for_append;
use podgate::edge::sys::take_inherited;
use podgate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;
use tracing::warn;

/// Maximum number of bytes per read.
pub(super) const CHUNK: usize = 16 * 1024;
/// Time limit for a blocked output after the command has ended. After this time, the rest is dropped.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for opening the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// First answer of the child if it could open the file. Other answers are error messages.
const OPENED: &str = "\n";

#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    into: ChildStdin,
    /// Errors of the child. Ends with the child.
    answers: PipeReader,
}

impl Appender {
    /// Creates or truncates the file at `path`.
    pub(super) fn start(path: &Path) -> io::Result<Appender> {
        let (mut answers, writer) = inherited_pipe()?;
        let mut command = Command::new(crate::OWN_PROGRAM);
        command.args(["append", "--answer-to", &writer.as_raw_fd().to_string(), "--"]).arg(path);
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        drop(writer);
        let mut answer = String::new();
        if wait_until_ready(&answers, PollFlags::IN, OPEN_TIMEOUT) {
            // Without an error message, the pipe has no end yet, which is an error after the answer.
            let _ = answers.read_to_string(&mut answer);
        } else {
            let _ = child.kill();
            answer.push_str("timed out");
        }
        let into = child.stdin.take().filter(|_| answer == OPENED);
        let into = into.ok_or_else(|| io::Error::other(answer))?;
        rustix::io::ioctl_fionbio(&into, true)?;
        Ok(Appender { path: path.to_owned(), into, answers })
    }

    /// Writes as much as possible without blocking.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.into).write(bytes)
    }

    /// Waits until the child has written everything, or has not ended for a time.
    pub(super) fn finish(self) {
        let Appender { path, into, mut answers } = self;
        drop(into);
        let mut error = String::new();
        if !wait_until_ready(&answers, PollFlags::IN, STALL_TIMEOUT) {
            error.push_str("timed out");
        }
        let _ = answers.read_to_string(&mut error);
        if !error.is_empty() {
            warn!(%error, file = %path.display(), "can't copy the command's output any more; the copy is incomplete");
        }
    }
}

impl AsFd for Appender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.into.as_fd()
    }
}

/// Runs the child: copies standard input to the file, and writes `OPENED` or an error message to the inherited
/// descriptor `answer_to`.
pub(crate) fn run(path: &Path, answer_to: i32) {
    let mut answers = take_inherited(answer_to).map(File::from);
    let mut answer = |text: &str| answers.as_mut().map_or(Ok(()), |answers| answers.write_all(text.as_bytes()));
    let mut copy = || -> io::Result<()> {
        // Append, because both streams may go to one file.
        let mut file = open_for_append(path)?;
        // Only a file has a length: other kinds reject this call.
        let _ = file.set_len(0);
        rustix::io::ioctl_fionbio(&file, false)?;
        answer(OPENED)?;
        let mut chunk = [0; CHUNK];
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut chunk)? {
                0 => return Ok(()),
                taken => file.write_all(&chunk[..taken])?,
            }
        }
    };
    if let Err(error) = copy() {
        let _ = answer(&error.to_string());
    }
}

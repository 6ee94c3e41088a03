//! A child process that writes the copy of an output stream, because the file's mount may not answer.

use podgate::edge::files::open_for_append;
use podgate::edge::watch::wait_until_ready;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tracing::warn;

/// Maximum number of bytes per read.
pub(super) const CHUNK: usize = 16 * 1024;
/// Time limit for opening the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Answer of the child when it has opened the file, and when it has written everything. Others are error messages.
const DONE: &str = "\n";

#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    /// Takes the output, and returns the child's answers. Never blocks.
    pub(super) socket: File,
}

impl Appender {
    /// Creates or truncates the file at `path`.
    pub(super) fn start(path: &Path) -> io::Result<Appender> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let mut command = Command::new(crate::OWN_PROGRAM);
        let mut child = command.args(["append", "--"]).arg(path).stdin(theirs).process_group(0).spawn()?;
        // It holds the child's end, which would hide the end of the child.
        drop(command);
        let appender = Appender { path: path.to_owned(), socket: ours.into() };
        appender.answer(OPEN_TIMEOUT).map(|()| appender).map_err(|why| {
            let _ = child.kill();
            io::Error::other(why)
        })
    }

    fn answer(&self, limit: Duration) -> Result<(), String> {
        if !wait_until_ready(&self.socket, PollFlags::IN, limit) {
            return Err("timed out".to_owned());
        }
        let mut answer = String::new();
        // While the child runs, the socket has no end, which is an error after the answer.
        let _ = (&self.socket).read_to_string(&mut answer);
        match answer.as_str() {
            DONE => Ok(()),
            "" => Err("its process was killed".to_owned()),
            _ => Err(answer),
        }
    }

    /// Waits until the child has written everything.
    pub(super) fn finish(&self, limit: Duration) {
        let _ = shutdown(&self.socket, Shutdown::Write);
        if let Err(error) = self.answer(limit) {
            warn!(%error, file = %self.path.display(), "cannot copy the command's output any more; the copy is incomplete");
        }
    }
}

/// Runs the child: copies standard input, a socket, to the file, and answers there with `DONE` or an error message.
pub(crate) fn run(path: &Path) {
    let answer = |text: &str| rustix::io::write(stdin(), text.as_bytes());
    let copy = || -> io::Result<()> {
        // Append, because both streams may go to one file.
        let mut file = open_for_append(path)?;
        // Only a file has a length: other kinds reject this call.
        let _ = file.set_len(0);
        rustix::io::ioctl_fionbio(&file, false)?;
        // A child that cannot end must not keep the container's output open. Not earlier: the file may be that output.
        if let Ok(null) = File::options().write(true).open("/dev/null") {
            let _ = dup2_stdout(&null).and_then(|()| dup2_stderr(&null));
        }
        answer(DONE)?;
        let mut chunk = [0; CHUNK];
        loop {
            match rustix::io::read(stdin(), &mut chunk)? {
                0 => return Ok(()),
                taken => file.write_all(&chunk[..taken])?,
            }
        }
    };
    let _ = match copy() {
        Ok(()) => answer(DONE),
        Err(error) => answer(&error.to_string()),
    };
}

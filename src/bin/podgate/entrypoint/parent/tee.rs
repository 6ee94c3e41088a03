//! `--stdout`, `--stderr`: the command's output on its way to the container's own, and into a file.

use crate::failure::Failure;
use podgate::edge::watch::wait_until_ready;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::warn;

/// How much is taken at once, in bytes.
const CHUNK: usize = 16 * 1024;
/// How much a pipe takes without blocking once it says that it is writable (`PIPE_BUF`, pipe(7)), in bytes.
const PIPE_WRITE_MAX: usize = 4096;
/// How often in a row it moves a chunk before others get their turn.
const CHUNKS_PER_PUMP: usize = 16;
/// How long the container's own output may take nothing, after the command has ended, before the rest is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// One stream of the command's.
#[derive(Debug)]
pub(super) struct Tee {
    /// `None` at its end.
    from: Option<PipeReader>,
    /// `None` once nobody reads it any more.
    to: Option<Output>,
    /// `None` once it could not be written.
    file: Option<File>,
    path: PathBuf,
    /// Taken, written to the file, and not yet to the output.
    pending: Vec<u8>,
}

/// The container's own output.
#[derive(Debug)]
enum Output {
    /// An opening of our own of the same pipe or terminal, which never blocks.
    Reopened(File),
    /// The one that is shared with others, who would be surprised if it did not block.
    Shared(BorrowedFd<'static>),
}

impl Output {
    fn new(shared: BorrowedFd<'static>) -> Output {
        let own = || -> Option<File> {
            let kind = FileType::from_raw_mode(fstat(shared).ok()?.st_mode);
            // Not a file, which it would write from its start, nor a socket, which can't be opened.
            if !matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
                return None;
            }
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
            rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
        };
        own().map_or(Output::Shared(shared), Output::Reopened)
    }

    /// Writes what can be written without waiting.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Reopened(file) => (&*file).write(bytes),
            Output::Shared(shared) => {
                if !wait_until_ready(shared, PollFlags::OUT, Duration::ZERO) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(rustix::io::write(shared, &bytes[..bytes.len().min(PIPE_WRITE_MAX)])?)
            }
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Output::Reopened(file) => file.as_fd(),
            Output::Shared(shared) => shared.as_fd(),
        }
    }
}

impl Tee {
    /// From a pipe, whose other end is returned, to `to` and to the file at `path`, which is emptied or made.
    pub(super) fn new(to: BorrowedFd<'static>, path: &Path) -> Result<(Tee, PipeWriter), Failure> {
        let what = format!("can't copy the command's output to {}", path.display());
        // Appending: both streams may go to one file. Non-blocking: it may be a FIFO that nobody reads.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map_err(Failure::setup_error(&what))?;
        let (from, into) = io::pipe().map_err(Failure::setup_error(&what))?;
        // The reading end is ours alone.
        rustix::io::ioctl_fionbio(&from, true).map_err(Failure::setup_error(&what))?;
        let (to, file) = (Some(Output::new(to)), Some(file.into()));
        Ok((Tee { from: Some(from), to, file, path: path.to_owned(), pending: Vec::new() }, into))
    }

    /// What to wait for, if anything.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match (&self.to, &self.from) {
            (Some(to), _) if !self.pending.is_empty() => Some(PollFd::new(to, PollFlags::OUT)),
            (_, Some(from)) => Some(PollFd::new(from, PollFlags::IN)),
            _ => None,
        }
    }

    /// Moves what can be moved without waiting.
    pub(super) fn pump(&mut self) {
        for _ in 0..CHUNKS_PER_PUMP {
            if !self.flush() || self.read_chunk(CHUNK) == 0 {
                return;
            }
        }
    }

    /// Moves what the command has left in the pipe, and no more: a process that it has left behind may write for ever.
    pub(super) fn drain(mut self) {
        let held = self.from.as_ref().and_then(|from| rustix::io::ioctl_fionread(from).ok()).unwrap_or(0);
        let mut left = usize::try_from(held).unwrap_or(0);
        loop {
            while !self.flush() {
                let Some(to) = &self.to else { break };
                if !wait_until_ready(to, PollFlags::OUT, STALL_TIMEOUT) {
                    warn!("nobody takes the container's own output; the rest of the command's is lost");
                    return;
                }
            }
            let taken = self.read_chunk(left.min(CHUNK));
            if taken == 0 {
                return;
            }
            left -= taken;
        }
    }

    /// Takes at most `most` bytes from the command; how many.
    fn read_chunk(&mut self, most: usize) -> usize {
        let Some(from) = &mut self.from else { return 0 };
        let mut chunk = [0; CHUNK];
        let taken = match from.read(&mut chunk[..most]) {
            Ok(0) if most > 0 => {
                self.from = None;
                0
            }
            // An error says that nothing is there now; a pipe has no others.
            read => read.unwrap_or(0),
        };
        let chunk = &chunk[..taken];
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(chunk)
        {
            warn!(%error, file = %self.path.display(), "can't copy the command's output there any more; the copy ends here");
            self.file = None;
        }
        if self.to.is_some() {
            self.pending.extend_from_slice(chunk);
        } else if self.file.is_none() {
            // Nobody wants it: the command learns so, as it would without us.
            self.from = None;
        }
        taken
    }

    /// Writes what is pending; whether nothing is left.
    fn flush(&mut self) -> bool {
        while let Some(to) = &self.to
            && !self.pending.is_empty()
        {
            match to.write(&self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.to = None;
                    self.pending.clear();
                }
            }
        }
        true
    }
}

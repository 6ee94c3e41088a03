//! `--stdout`, `--stderr`: copies the command's output to the container's own output and to a file.

use crate::failure::Failure;
use podgate::edge::files::open_for_append;
use podgate::edge::watch::wait_until_ready;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::warn;

/// Maximum number of bytes per read.
const CHUNK: usize = 16 * 1024;
/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF`, pipe(7)).
const PIPE_WRITE_MAX: usize = 4096;
/// Maximum number of chunks per call, so that the loop can do other work.
const CHUNKS_PER_PUMP: usize = 16;
/// Time limit for a blocked container output after the command has ended. After this time, the rest is dropped.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// One output stream of the command.
#[derive(Debug)]
pub(super) struct Tee {
    /// Pipe from the command. `None` after the end of the stream.
    from: Option<PipeReader>,
    /// The container's own output. `None` once it has no reader.
    to: Option<Output>,
    /// Open file at `path`. `None` after a write error.
    file: Option<File>,
    path: PathBuf,
    /// Bytes written to the file but not yet to the output.
    pending: Vec<u8>,
}

#[derive(Debug)]
enum Output {
    /// The same pipe or terminal, opened again in non-blocking mode.
    Reopened(File),
    /// The inherited descriptor, shared with other processes that rely on blocking mode.
    Shared(BorrowedFd<'static>),
}

impl Output {
    fn new(shared: BorrowedFd<'static>) -> Output {
        let own = || -> Option<File> {
            let kind = FileType::from_raw_mode(fstat(shared).ok()?.st_mode);
            // Don't reopen files, which would be overwritten from the start, or sockets, which can't be opened.
            if !matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
                return None;
            }
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
            rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
        };
        own().map_or(Output::Shared(shared), Output::Reopened)
    }

    /// Writes as much as possible without blocking.
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
    /// Creates a pipe whose data is copied to `to` and to the new or truncated file at `path`. Returns the pipe's write
    /// end too.
    pub(super) fn new(to: BorrowedFd<'static>, path: &Path) -> Result<(Tee, PipeWriter), Failure> {
        let what = format!("can't copy the command's output to {}", path.display());
        // Append, because both streams may go to one file.
        let file = open_for_append(path).map_err(Failure::setup_error(&what))?;
        // Only a file has a length: other kinds reject this call.
        let _ = file.set_len(0);
        let (from, into) = io::pipe().map_err(Failure::setup_error(&what))?;
        // Only podgate holds the read end, so the flag affects no other process.
        rustix::io::ioctl_fionbio(&from, true).map_err(Failure::setup_error(&what))?;
        let (to, file) = (Some(Output::new(to)), Some(file));
        Ok((Tee { from: Some(from), to, file, path: path.to_owned(), pending: Vec::new() }, into))
    }

    /// Returns the event to wait for, if any.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match (&self.to, &self.from) {
            (Some(to), _) if !self.pending.is_empty() => Some(PollFd::new(to, PollFlags::OUT)),
            (_, Some(from)) => Some(PollFd::new(from, PollFlags::IN)),
            _ => None,
        }
    }

    /// Copies as much as possible without blocking.
    pub(super) fn pump(&mut self) {
        for _ in 0..CHUNKS_PER_PUMP {
            if !self.flush() || self.read_chunk(CHUNK) == 0 {
                return;
            }
        }
    }

    /// Copies only the data in the pipe, because a process left behind by the command may write forever.
    pub(super) fn drain(mut self) {
        let held = self.from.as_ref().and_then(|from| rustix::io::ioctl_fionread(from).ok()).unwrap_or(0);
        let mut left = usize::try_from(held).unwrap_or(0);
        loop {
            while !self.flush() {
                let Some(to) = &self.to else { break };
                if !wait_until_ready(to, PollFlags::OUT, STALL_TIMEOUT) {
                    warn!("the container's output is blocked; dropping the rest of the command's output");
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

    /// Reads at most `most` bytes from the command. Returns their number.
    fn read_chunk(&mut self, most: usize) -> usize {
        let Some(from) = &mut self.from else { return 0 };
        let mut chunk = [0; CHUNK];
        let taken = match from.read(&mut chunk[..most]) {
            Ok(0) if most > 0 => {
                self.from = None;
                0
            }
            // On a pipe, the only error is that no data is available now.
            read => read.unwrap_or(0),
        };
        let chunk = &chunk[..taken];
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(chunk)
        {
            warn!(%error, file = %self.path.display(), "can't copy the command's output any more; the copy is incomplete");
            self.file = None;
        }
        if self.to.is_some() {
            self.pending.extend_from_slice(chunk);
        } else if self.file.is_none() {
            // Close the pipe if nothing consumes the output, so that the command gets SIGPIPE as usual.
            self.from = None;
        }
        taken
    }

    /// Writes pending bytes. Returns true if none are left.
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

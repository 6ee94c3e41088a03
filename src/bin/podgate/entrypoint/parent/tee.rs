//! `--stdout`, `--stderr`: copies the command's output to the container's own output and to a file.

use super::appender::{Appender, CHUNK};
use crate::clock::now;
use crate::failure::Failure;
use podgate::edge::watch::wait_until_ready;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::warn;

/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF`, pipe(7)).
const PIPE_WRITE_MAX: usize = 4096;
/// Maximum number of chunks per call, so that the loop can do other work.
const CHUNKS_PER_PUMP: usize = 16;
/// Time limit for a blocked output after the command has ended. After this time, the rest is dropped.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// One output stream of the command.
#[derive(Debug)]
pub(super) struct Tee {
    /// Pipe from the command. `None` after the end of the stream.
    from: Option<PipeReader>,
    /// The last bytes from the command. Empty once all copies have them.
    chunk: Vec<u8>,
    copies: Vec<Copy>,
}

/// A destination. Removed when it accepts no more bytes.
#[derive(Debug)]
struct Copy {
    to: Output,
    /// Number of bytes of the chunk that were written.
    written: usize,
}

#[derive(Debug)]
enum Output {
    /// The container's own output: the same pipe or terminal, opened again in non-blocking mode.
    Reopened(File),
    /// The container's own output: the inherited descriptor, shared with other processes that rely on blocking mode.
    Shared(BorrowedFd<'static>),
    /// The file.
    Appended(Appender),
}

impl Output {
    fn new(shared: BorrowedFd<'static>) -> Output {
        let own = || -> Option<File> {
            let kind = FileType::from_raw_mode(fstat(shared).ok()?.st_mode);
            // Don't reopen files, which would be overwritten from the start, or sockets, which cannot be opened.
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
            Output::Reopened(file) | Output::Appended(Appender { socket: file, .. }) => (&*file).write(bytes),
            Output::Shared(shared) => {
                if !wait_until_ready(shared, PollFlags::OUT, Duration::ZERO) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(rustix::io::write(shared, &bytes[..bytes.len().min(PIPE_WRITE_MAX)])?)
            }
        }
    }

    fn finish(&self, limit: Duration) {
        if let Output::Appended(appender) = self {
            appender.finish(limit);
        }
    }

    /// Logs that the rest of the output is dropped. Returns false.
    fn give_up(&self) -> bool {
        match self {
            Output::Appended(appender) => appender.finish(Duration::ZERO),
            _ => warn!("the container's output is blocked; dropping the rest of the command's output"),
        }
        false
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Output::Reopened(file) | Output::Appended(Appender { socket: file, .. }) => file.as_fd(),
            Output::Shared(shared) => shared.as_fd(),
        }
    }
}

impl Copy {
    /// Writes the rest of `chunk` as far as possible without blocking. Returns false if no more bytes are accepted.
    fn write(&mut self, chunk: &[u8]) -> bool {
        while self.written < chunk.len() {
            match self.to.write(&chunk[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // A child that has ended has left its answer.
                    self.to.finish(Duration::ZERO);
                    return false;
                }
            }
        }
        true
    }
}

impl Tee {
    /// Creates a pipe whose data is copied to `to` and to the new or truncated file at `path`. Returns the pipe's write
    /// end too.
    pub(super) fn new(to: BorrowedFd<'static>, path: &Path) -> Result<(Tee, PipeWriter), Failure> {
        let created = || -> io::Result<_> {
            let appender = Appender::start(path)?;
            let (from, into) = io::pipe()?;
            // Only podgate holds the read end, so the flag affects no other process.
            rustix::io::ioctl_fionbio(&from, true)?;
            let copies = [Output::new(to), Output::Appended(appender)].map(|to| Copy { to, written: 0 }).into();
            Ok((Tee { from: Some(from), chunk: Vec::new(), copies }, into))
        };
        created().map_err(Failure::setup_error(&format!("cannot copy the command's output to {}", path.display())))
    }

    /// Returns the events to wait for.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let from = self.from.iter().filter(|_| self.chunk.is_empty());
        let blocked = self.blocked().map(|copy| PollFd::new(&copy.to, PollFlags::OUT));
        from.map(|from| PollFd::new(from, PollFlags::IN)).chain(blocked)
    }

    /// Returns the copies that lack a part of the chunk.
    fn blocked(&self) -> impl Iterator<Item = &Copy> {
        self.copies.iter().filter(|copy| copy.written < self.chunk.len())
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
    pub(super) fn drain(mut self, deadline: Instant) {
        let limit = || deadline.saturating_duration_since(now()).max(STALL_TIMEOUT / 10);
        let held = self.from.as_ref().and_then(|from| rustix::io::ioctl_fionread(from).ok()).unwrap_or(0);
        let mut left = usize::try_from(held).unwrap_or(0);
        loop {
            while !self.flush() {
                let mut set: Vec<_> = self.poll_fds().collect();
                if poll(&mut set, Timespec::try_from(limit()).ok().as_ref()) == Ok(0) {
                    self.copies.retain(|copy| copy.written >= self.chunk.len() || copy.to.give_up());
                }
            }
            let taken = self.read_chunk(left.min(CHUNK));
            if taken == 0 {
                break;
            }
            left -= taken;
        }
        self.copies.iter().for_each(|copy| copy.to.finish(limit()));
    }

    /// Reads at most `most` bytes from the command. Returns their number.
    fn read_chunk(&mut self, most: usize) -> usize {
        let Some(from) = &mut self.from else { return 0 };
        self.chunk.resize(most, 0);
        // On a pipe, the only error is that no data is available now.
        let read = from.read(&mut self.chunk);
        self.chunk.truncate(*read.as_ref().unwrap_or(&0));
        self.copies.iter_mut().for_each(|copy| copy.written = 0);
        // Close the pipe if nothing consumes the output, so that the command gets SIGPIPE as usual.
        if matches!(read, Ok(0)) || self.copies.is_empty() {
            self.from = None;
        }
        self.chunk.len()
    }

    /// Writes the chunk. Returns true if nothing of it is left.
    fn flush(&mut self) -> bool {
        self.copies.retain_mut(|copy| copy.write(&self.chunk));
        let is_flushed = self.blocked().next().is_none();
        if is_flushed {
            self.chunk.clear();
        }
        is_flushed
    }
}

//! A pipe that receives the agent's log, like the pipe between a container and its runtime.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Clone)]
pub(crate) struct LogPipe(Arc<Pipe>);

struct Pipe {
    /// Value for `--log-to`.
    path: PathBuf,
    /// Never ends, because this process keeps the write end open.
    reader: PipeReader,
    writer: PipeWriter,
    text: Mutex<String>,
}

impl LogPipe {
    pub(crate) fn new() -> LogPipe {
        LogPipe::with_path(|fd| format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    /// Creates a pipe for agents that inherit its write end as the descriptor `fd`. In a user namespace, they can't open
    /// descriptors of this process.
    pub(crate) fn inherited_as(fd: u8) -> LogPipe {
        LogPipe::with_path(|_| format!("/proc/self/fd/{fd}"))
    }

    fn with_path(path: impl FnOnce(RawFd) -> String) -> LogPipe {
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let path = path(writer.as_raw_fd()).into();
        LogPipe(Arc::new(Pipe { path, reader, writer, text: Mutex::default() }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn writer(&self) -> PipeWriter {
        self.0.writer.try_clone().unwrap()
    }

    /// Returns everything that was written since the last `clear`.
    pub(crate) fn text(&self) -> String {
        let mut text = self.0.text.lock().unwrap();
        // The pipe has no end, which is an error after the text.
        let _ = (&self.0.reader).read_to_string(&mut text);
        text.clone()
    }

    pub(crate) fn clear(&self) {
        self.text();
        self.0.text.lock().unwrap().clear();
    }

    /// Fills the pipe, so that further writes block.
    pub(crate) fn fill(&self) {
        rustix::io::ioctl_fionbio(&self.0.writer, true).unwrap();
        while (&self.0.writer).write(&[b'x'; 4096]).is_ok() {}
    }
}

//! A pipe that receives the agent's log, like the pipe between a container and its runtime.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) struct LogPipe {
    /// Value for `--log-to`.
    pub(crate) path: PathBuf,
    /// Read end of the pipe. Reads never reach the end of the file, because this process keeps the write end open.
    reader: PipeReader,
    writer: PipeWriter,
    text: Mutex<String>,
}

impl LogPipe {
    /// Creates a pipe whose write end agents find at `path(fd)`, where `fd` is this process's descriptor.
    pub(crate) fn new(path: impl FnOnce(RawFd) -> String) -> Arc<LogPipe> {
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let path = path(writer.as_raw_fd()).into();
        Arc::new(LogPipe { path, reader, writer, text: Mutex::default() })
    }

    pub(crate) fn writer(&self) -> PipeWriter {
        self.writer.try_clone().unwrap()
    }

    /// Returns everything that was written so far.
    pub(crate) fn text(&self) -> String {
        let mut text = self.text.lock().unwrap();
        // After the text, `read_to_string` returns an error, because the pipe has no end.
        let _ = (&self.reader).read_to_string(&mut text);
        text.clone()
    }

    /// Fills the pipe, so that further writes block.
    pub(crate) fn fill(&self) {
        rustix::io::ioctl_fionbio(&self.writer, true).unwrap();
        while (&self.writer).write(&[b'x'; 4096]).is_ok() {}
    }
}

//! Signals that stop the sidecar.

use podgate::edge::sys::SignalFd;
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Receives SIGTERM and SIGINT. The signals stay blocked, so the kernel keeps a signal that arrives during setup or
/// after a panic until the sidecar reads it.
#[derive(Debug)]
pub(crate) struct Signals {
    descriptor: AsyncFd<SignalFd>,
}

impl Signals {
    /// Blocks the signals. Call this first: for process 1 of a container, the kernel drops a signal that is neither
    /// blocked nor handled.
    pub(crate) fn block() -> io::Result<SignalFd> {
        SignalFd::block(&[libc::SIGTERM, libc::SIGINT])
    }

    /// Registers the blocked signals with the tokio runtime. Must be called inside the runtime.
    pub(crate) fn new(blocked: SignalFd) -> io::Result<Signals> {
        #[allow(deprecated, reason = "sound here: a SignalFd owns its descriptor and never closes it early")]
        let descriptor = AsyncFd::with_interest(blocked, Interest::READABLE)?;
        Ok(Signals { descriptor })
    }

    /// Waits for the next signal and returns its name. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            let Ok(mut guard) = self.descriptor.readable().await else { return std::future::pending().await };
            match guard.get_inner().next_signal() {
                Some(libc::SIGINT) => return "INT",
                Some(_) => return "TERM",
                None => guard.clear_ready(),
            }
        }
    }
}

//! Signals that stop the sidecar.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGTERM and SIGINT, even during the sidecar's setup and after a panic.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to receive the signals. Call this inside the tokio runtime, as early as possible. For process 1 of a
    /// container, the kernel drops a signal that is not handled.
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "TERM",
            _ = self.interrupt.recv() => "INT",
        }
    }
}

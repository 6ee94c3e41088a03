//! The scratch directory of one run, and the signals that end the run.
//!
//! `try` leaves no process behind, because it starts only podgate's own programs. When a process ends, even by SIGKILL,
//! the kernel kills the programs that this process has started (see `stand_in`). If SIGKILL ends `try`, only the
//! directory remains.

use crate::runtime;
use futures::future::select_all;
use podgate::core::text::error_chain;
use std::fs::{Permissions, create_dir};
use std::io::Error;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Directories for the board and the containers' reports.
pub(super) const DIRECTORIES: [&str; 2] = ["board", "self"];

/// Calls `act` at each Ctrl-C, SIGTERM and SIGHUP until `act` returns false.
pub(super) fn on_interrupt(act: impl Fn() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        runtime::block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let signals = kinds.into_iter().map(signal).collect::<Result<Vec<_>, Error>>();
            let mut signals = signals.map_err(|error| error_chain(&error))?;
            loop {
                select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
                if !act() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        })
    });
}

/// Creates the scratch directory. Dropping the result removes the directory.
pub(super) fn create_directory() -> Result<TempDir, String> {
    let parent = std::env::temp_dir();
    let create = || {
        // Command lines and the descriptions of stand-ins contain the path as text, so the path must be UTF-8.
        parent.to_str().ok_or_else(|| Error::other("the path is not UTF-8"))?;
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("podgate-try-").permissions(private).tempdir()?;
        DIRECTORIES.iter().try_for_each(|name| create_dir(directory.path().join(name)))?;
        Ok(directory)
    };
    create().map_err(|error: Error| {
        format!(
            "cannot create a directory in {}: {}; set TMPDIR to another directory",
            parent.display(),
            error_chain(&error)
        )
    })
}

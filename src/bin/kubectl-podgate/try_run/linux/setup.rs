//! What a run needs on this machine: podgate's programs, a scratch directory, and the signals that end the run.
//!
//! `try` leaves no process behind, because it starts only podgate's own programs. When a process ends, even by SIGKILL,
//! the kernel kills the programs that this process has started (see `stand_in`). If SIGKILL ends `try`, only the
//! directory remains.

use crate::block_on;
use crate::error::CommandResult;
use crate::output::print_error;
use futures::future::select_all;
use podgate::core::text::error_chain;
use rustix::fs::{Access, access};
use std::fs::{Permissions, create_dir};
use std::io::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// Directories for the board and the containers' reports.
pub(super) const VOLUME_DIRECTORIES: [&str; 2] = ["board", "self"];

/// Paths of the programs that a run needs.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    /// This program, which also plays the containers.
    pub(super) own: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) sidecar: PathBuf,
}

impl Programs {
    /// Finds the agent and the sidecar beside this program, otherwise in PATH.
    pub(super) fn find() -> CommandResult<Programs> {
        let own = std::env::current_exe().map_err(|error| format!("cannot find this program's own file: {error}"))?;
        let find = |name: &str| {
            let beside = Some(own.with_file_name(name)).filter(|path| path.is_file());
            beside.or_else(|| find_in_path(name)).ok_or_else(|| {
                let fix = "copy it from the plugin's archive for Linux, or build it with `make agent controller`";
                format!("{name} is neither in {} nor in PATH; {fix}", own.with_file_name("").display())
            })
        };
        Ok(Programs { agent: find("podgate")?, sidecar: find("podgate-controller")?, own })
    }
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&directories).filter(|path| path.is_absolute()).map(|path| path.join(name));
    paths.find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Calls `act` at each Ctrl-C, SIGTERM and SIGHUP until `act` returns false.
pub(super) fn on_interrupt(act: impl Fn() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let followed = block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let signals = kinds.into_iter().map(signal).collect::<Result<Vec<_>, Error>>();
            let mut signals = signals.map_err(|error| error_chain(&error))?;
            loop {
                select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
                if !act() {
                    return Ok(());
                }
            }
        });
        followed.unwrap_or_else(|error| _ = print_error(&error));
    });
}

/// Creates the scratch directory. Dropping the result removes the directory.
pub(super) fn create_directory() -> CommandResult<TempDir> {
    let parent = std::env::temp_dir();
    let create = || {
        // Command lines and the descriptions of stand-ins contain the path as text, so the path must be UTF-8.
        parent.to_str().ok_or_else(|| Error::other("the path is not UTF-8"))?;
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("podgate-try-").permissions(private).tempdir()?;
        VOLUME_DIRECTORIES.iter().try_for_each(|name| create_dir(directory.path().join(name)))?;
        Ok(directory)
    };
    create().map_err(|error: Error| {
        let (path, why) = (parent.display(), error_chain(&error));
        format!("cannot create a directory in {path}: {why}; set TMPDIR to another directory").into()
    })
}

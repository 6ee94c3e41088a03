//! Finds podgate's own programs.

use rustix::fs::{Access, access};
use std::path::PathBuf;

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
    pub(super) fn find() -> Result<Programs, String> {
        let own = std::env::current_exe().map_err(|error| format!("cannot find this program's own file: {error}"))?;
        let find = |name: &str| {
            let beside = Some(own.with_file_name(name)).filter(|path| path.is_file());
            beside.or_else(|| find_in_path(name)).ok_or_else(|| {
                let directory = own.with_file_name("");
                let fix = "run `make agent controller` in podgate's source, and copy both programs to PATH";
                format!("{name} is neither in {} nor in PATH; {fix}", directory.display())
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

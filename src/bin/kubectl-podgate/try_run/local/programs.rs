//! Finds podgate's own programs.

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
    /// Finds agent and sidecar beside this program, else in PATH.
    pub(super) fn find() -> Result<Programs, String> {
        let own = std::env::current_exe().map_err(|error| format!("can't find this program's own file: {error}"))?;
        let find = |name: &str| {
            let beside = Some(own.with_file_name(name)).filter(|path| path.is_file());
            beside.or_else(|| find_program(name)).ok_or_else(|| {
                let folder = own.with_file_name("");
                let fix = "build it in podgate's source: cargo build --locked --bins";
                format!("{name} is neither in {} nor in PATH; {fix}", folder.display())
            })
        };
        Ok(Programs { agent: find("podgate")?, sidecar: find("podgate-controller")?, own })
    }
}

/// Returns the path of a program in PATH. A name with a slash is a path.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").filter(|_| !name.contains('/')).unwrap_or_default();
    // Joining to the empty path leaves the name as it is.
    let folders = std::env::split_paths(&folders).filter(|folder| name.contains('/') || folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

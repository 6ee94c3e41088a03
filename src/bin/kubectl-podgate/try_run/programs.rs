//! Finds podgate's own programs.

use std::path::{Path, PathBuf};

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
    ///
    /// # Errors
    /// A message of one line that tells how to build the missing program.
    pub(super) fn find() -> Result<Programs, String> {
        let own = std::env::current_exe().map_err(|error| format!("can't find this program's own file: {error}"))?;
        let beside = own.parent().unwrap_or(Path::new("/")).to_owned();
        let find = |name: &str| {
            let path = Some(beside.join(name)).filter(|path| path.is_file()).or_else(|| find_in_path(name));
            path.ok_or_else(|| {
                format!(
                    "{name} is neither in {} nor in PATH; build it in podgate's source: cargo build --locked --bins",
                    beside.display()
                )
            })
        };
        Ok(Programs { agent: find("podgate")?, sidecar: find("podgate-controller")?, own })
    }
}

/// Returns the path of a program. A name with a slash is a path.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') { Some(PathBuf::from(name)).filter(|path| path.is_file()) } else { find_in_path(name) }
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

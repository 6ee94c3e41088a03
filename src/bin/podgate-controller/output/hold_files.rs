//! Writes the gate files of held containers. The kubelet creates a container only while its gate file has the key
//! `OPEN` (<https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/>).

use crate::failure::Result;
use podgate::core::names;
use podgate::edge::{files, process};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct HoldFiles(PathBuf);

impl HoldFiles {
    /// Checks that the sidecar and the kubelet see the same volume, and closes all gates. Fails with a message if a
    /// directory is missing or not writable, or if the kubelet uses another volume.
    pub(crate) fn new_closed(directory: &Path, canary: &Path) -> Result<HoldFiles> {
        let hint = "mount the volume podgate-hold as kubectl podgate inject does";
        close_all(directory).map_err(|error| format!("{}: {error}; {hint}", directory.display()))?;
        check_canary(directory, canary).map_err(|error| {
            format!(
                "hold mode is not possible: the kubelet and the sidecar see different volumes: {}: {error}; {hint}",
                canary.display()
            )
        })?;
        Ok(HoldFiles(directory.to_owned()))
    }

    pub(crate) fn set(&self, container: &str, open: bool) -> io::Result<()> {
        if open {
            // The kubelet's parser requires the single quotes.
            let line = format!("{}='{}'\n", names::GATE_FILE_KEY, names::GATE_FILE_VALUE);
            files::replace(&self.0, container, line.as_bytes(), 0o444).map(drop)
        } else {
            remove(&self.0.join(container))
        }
    }
}

/// Removes all gate files in `directory`, so that the kubelet creates no held container. Does nothing without such a
/// directory.
pub(crate) fn close_all(directory: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Checks that both mounts show the same volume: writes a file through one mount and reads it through the other. The
/// kubelet creates the directory of the second mount. The check thus fails if the kubelet uses another volume, for
/// example one outside of the Pod's virtual machine.
fn check_canary(directory: &Path, canary: &Path) -> io::Result<()> {
    let id = process::random_id(8)?;
    let written = directory.join(names::HOLD_CANARY);
    files::replace(&written, "canary", id.as_bytes(), 0o644)?;
    let found = std::fs::read(canary.join("canary"))?;
    if found == id.as_bytes() { Ok(()) } else { Err(io::Error::other("another file was found there")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_file_exists_only_while_the_gate_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let canary = directory.path().join(names::HOLD_CANARY);
        std::fs::create_dir(&canary).unwrap();
        std::fs::write(directory.path().join("old"), "OPEN='yes'\n").unwrap();
        let gates = HoldFiles::new_closed(directory.path(), &canary).unwrap();
        assert!(!directory.path().join("old").exists());
        gates.set("api", true).unwrap();
        assert_eq!(std::fs::read_to_string(directory.path().join("api")).unwrap(), "OPEN='yes'\n");
        gates.set("api", false).unwrap();
        gates.set("api", false).unwrap();
        gates.set("web", true).unwrap();
        close_all(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn volume_that_the_kubelet_does_not_see_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let error = || HoldFiles::new_closed(directory.path(), other.path()).unwrap_err().to_string();
        assert!(error().contains("see different volumes"), "{}", error());
        std::fs::create_dir(directory.path().join(names::HOLD_CANARY)).unwrap();
        assert!(error().contains("see different volumes"));
        std::fs::write(other.path().join("canary"), "forged").unwrap();
        assert!(error().contains("another file"));
    }
}

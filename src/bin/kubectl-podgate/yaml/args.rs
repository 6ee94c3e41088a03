//! The arguments that name manifests.

use super::Source;
use super::files::{self, Input};
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// Which manifests are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManifestArgs {
    /// Files, folders (their *.yaml, *.yml and *.json), or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// The same, as kubectl has it; may be given several times
    #[arg(id = "named", short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    named: Vec<PathBuf>,
    /// Look through the folders in a folder too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl ManifestArgs {
    /// Reads them.
    ///
    /// # Errors
    /// A line for each file that can't be read.
    pub(crate) fn read(&self) -> Result<Vec<(Input, Source)>, Vec<String>> {
        let named: Vec<PathBuf> = self.paths().cloned().collect();
        files::read_sources(&named, self.recursive)
    }

    /// Whether standard input is among them.
    pub(crate) fn has_standard_input(&self) -> bool {
        self.paths().any(|path| path.as_os_str() == "-")
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.named)
    }
}

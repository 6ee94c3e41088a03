//! Arguments that select manifests.

use super::{Source, files};
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// Flags and arguments that select the manifests to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManifestArgs {
    /// Files or directories (reads *.yaml, *.yml and *.json), or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "named")]
    files: Vec<PathBuf>,
    /// Same as FILE, in kubectl's syntax; repeatable, or FILE,FILE
    #[arg(id = "named", short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    #[arg(value_delimiter = ',')]
    named: Vec<PathBuf>,
    /// Read subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl ManifestArgs {
    /// Reads the manifests. For a file that cannot be read, returns a source with one document that holds the error.
    pub(crate) fn read(&self) -> Vec<Source> {
        let named: Vec<PathBuf> = self.paths().cloned().collect();
        files::read_sources(&named, self.recursive)
    }

    /// Returns true if the user passed `-`, which means standard input.
    pub(crate) fn has_standard_input(&self) -> bool {
        self.paths().any(|path| files::is_stdin(path))
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.named)
    }
}

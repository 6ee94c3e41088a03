//! The arguments of `completion` and `man`, and what their help teaches.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

const HELP: &str = "\
The script completes commands and flags of kubectl-podgate, the name of this program in PATH.

Examples:
  source <(kubectl podgate completion bash)
  kubectl podgate completion zsh > \"${fpath[1]}/_kubectl-podgate\"
  kubectl podgate completion fish > ~/.config/fish/completions/kubectl-podgate.fish
  kubectl podgate completion powershell | Out-String | Invoke-Expression

Exit codes:
  0    done
  1    the script could not be written
  64   wrong argument";

/// Print a script by which a shell completes commands and flags
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// A shell that there is a script for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

/// Write the manual's pages into a folder
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder; it must be there
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

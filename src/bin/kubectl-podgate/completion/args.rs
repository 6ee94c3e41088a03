//! Arguments and help of `completion`.

use clap::Args;
use clap_complete::aot::Shell;

const HELP: &str = "\
The script completes commands and flags of kubectl-podgate, which must be in PATH.

Examples:
  source <(kubectl podgate completion bash)
  kubectl podgate completion zsh > \"${fpath[1]}/_kubectl-podgate\"
  kubectl podgate completion fish > ~/.config/fish/completions/kubectl-podgate.fish
  kubectl podgate completion powershell | Out-String | Invoke-Expression

Exit codes:
  0    done
  1    the script could not be written
  64   wrong argument";

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Completion {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

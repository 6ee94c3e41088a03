//! Arguments and help of `suggest`.

use crate::yaml::ManifestArgs;
use clap::Args;

const HELP: &str = "\
A container needs another one if it names an address of that container: localhost:PORT, 127.0.0.1:PORT,
[::1]:PORT, or a Unix socket on a shared volume. suggest reads the environment, the arguments, and the
ConfigMaps that are in the same input. It shows each address with its place. An address is doubtful if
several containers can listen on it, or if the name of its variable or argument says that the address is
not needed at the start. A doubtful address is shown but not used. Check the result before you use it.

Examples:
  kubectl podgate suggest shop.yaml
  helm template shop ./chart | kubectl podgate suggest -
  kubectl podgate suggest --write shop.yaml && kubectl podgate check shop.yaml

Exit codes:
  0    success, also without a proposal
  1    a file cannot be read or written
  64   wrong flag or argument";

/// Propose an order for Pods that declare none, from the addresses that their containers name
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Suggest {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Write the annotation podgate.io/order into the files
    #[arg(short, long)]
    pub(crate) write: bool,
}

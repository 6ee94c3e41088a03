//! The arguments of `status`, and what its help teaches.

use crate::args::{Connection, pod_name};
use clap::{Args, ValueEnum};

const HELP: &str = "\
While a container's postStart hook runs, the kubelet says ContainerCreating (or PodInitializing) of all
containers of the Pod, and nothing else. This shows what podgate knows meanwhile, with the kubelet's own
word beside it.

Examples:
  kubectl podgate status ordered
  kubectl podgate status ordered -n shop --context test
  kubectl podgate status ordered -o json | jq -r '.containers[] | \"\\(.name) \\(.state)\"'
  until kubectl podgate status ordered; do sleep 1; done

Exit codes:
  0    all containers have started
  1    the Pod could not be read: no such Pod, no connection, no right to
  3    not all containers have started, or the Pod is being deleted
  64   wrong flag or argument";

/// Show each container of a Pod: its state, what it waits for, what it holds back
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Status {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// What to print: a table and sentences, or one JSON object
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
}

/// Value of `--output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    // A table and sentences.
    Text,
    // One object, as docs/kubectl-podgate.md promises it.
    Json,
}

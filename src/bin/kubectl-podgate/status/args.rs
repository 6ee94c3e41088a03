//! The arguments of `status`, and what its help teaches.

use crate::cluster::{ConnectionArgs, pod_name};
use crate::common_args::{OutputFormat, duration};
use clap::Args;
use std::time::Duration;

const HELP: &str = "\
While a container's postStart hook runs, the kubelet says ContainerCreating (or PodInitializing) of all
containers of the Pod, and nothing else. This shows what podgate knows meanwhile, with the kubelet's own
word beside it: the state of each container and since when, what it waits for, and what that would take.

With -w the table is drawn anew in place on a terminal; elsewhere a line is added for each change. It
goes on until you end it (Ctrl-C), or the Pod is gone. With --until-started it ends by itself, when all
containers have started, or can't any more. An API server that does not answer is asked again.

Examples:
  kubectl podgate status ordered
  kubectl podgate status ordered -n shop --context test
  kubectl podgate status ordered -w
  kubectl podgate status ordered --until-started --timeout 2m
  kubectl podgate status ordered -o json | jq -r '.containers[] | \"\\(.name) \\(.state)\"'

Exit codes:
  0    all containers have started
  1    the Pod could not be read: no such Pod, no connection, no right to
  3    not all containers have started (in time), or the Pod is being deleted or gone
  64   wrong flag or argument";

/// Show each container of a Pod: its state, what it waits for, what it holds back
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Status {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// What to print: a table and sentences, or one JSON object; with -w, one object a line for each change
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: OutputFormat,
    /// Follow the Pod, until you end it or the Pod is gone
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Follow the Pod until all its containers have started, or can't any more
    #[arg(long)]
    pub(crate) until_started: bool,
    /// With --until-started: how long to follow it; without a limit by default
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "until_started")]
    pub(crate) timeout: Option<Duration>,
}

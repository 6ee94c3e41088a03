//! `kubectl podgate status`: shows one Pod, once or continuously.

pub(crate) mod screen;
mod text;
mod watch;

use crate::clock;
use crate::cluster::{Cluster, ConnectionArgs, pod_name};
use crate::common_args::{OutputFormat, duration};
use crate::output::{to_json, write_stdout};
use crate::pod::view;
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
While a container's postStart hook runs, the kubelet reports only ContainerCreating (or
PodInitializing) for all containers of the Pod. This command shows podgate's state for each
container next to the kubelet's status. It also shows the time of the last change, what the
container waits for, and what is needed to continue.

With -w, a terminal shows the table and updates it in place. Other outputs get one line per change.
The command runs until you stop it (Ctrl-C) or the Pod is gone. With --until-started it ends when
all containers have started or cannot start any more. It retries if the API server does not answer.

Examples:
  kubectl podgate status ordered
  kubectl podgate status ordered -n shop --context test
  kubectl podgate status ordered -w
  kubectl podgate status ordered --until-started --timeout 2m
  kubectl podgate status ordered -o json | jq -r '.containers[] | \"\\(.name) \\(.state)\"'

Exit codes:
  0    all containers have started
  1    the Pod could not be read: not found, no connection, or access denied
  3    not all containers have started (in time), or the Pod is being deleted or gone";

/// Show the state of each container of a Pod and what it waits for
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Status {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Print text, or json (-w: one object per change)
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: OutputFormat,
    /// Follow the Pod until you stop the command or the Pod is gone
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Follow the Pod until it has started or cannot start
    #[arg(long)]
    pub(crate) until_started: bool,
    /// With --until-started: follow at most this long [default: none]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "until_started")]
    pub(crate) timeout: Option<Duration>,
}

pub(crate) async fn run(args: &Status) -> Result<ExitCode, String> {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    if args.watch || args.until_started {
        return watch::watch(args, cluster, pod).await;
    }
    let mut view = view::view(&pod, &cluster.namespace, clock::wall_clock());
    // Without a sidecar, only the gate's log has the last result of each probe.
    for row in view.containers.iter().filter(|row| row.asks && !row.waits_for.is_empty()) {
        let line = cluster.last_log_line(&args.pod, &row.name).await.unwrap_or_default();
        let reason = line.trim_end().split_once(": waiting for ").map(|(_, reason)| reason);
        view.notes.extend(reason.map(|reason| format!("{} waits for {reason}.", row.name)));
    }
    let text = match args.output {
        OutputFormat::Text => text::render(&view),
        OutputFormat::Json => to_json(&view),
    };
    write_stdout(&text)?;
    Ok(watch::exit_code(&view))
}

//! `kubectl podgate status`: shows one Pod, once or continuously.

pub(crate) mod screen;
mod text;
mod watch;
mod workload;

use self::workload::{Target, require_pods};
use crate::clock;
use crate::cluster::{Cluster, ConnectionArgs};
use crate::common_args::{OutputFormat, duration};
use crate::error::CommandResult;
use crate::output::{to_json, write_stdout};
use crate::pod::shape::View;
use crate::pod::{Pod, view};
use clap::Args;
use podgate::order::declare::keys;
use podgate::order::finding::Level;
use podgate::order::inject::{self, Options};
use podgate::order::plan::KnownFacts;
use std::time::Duration;

const HELP: &str = "\
Shows podgate's state for each container next to the kubelet's status, with the time of the last
change, what the container waits for, and what is needed to continue. Of a workload (deployment,
statefulset, daemonset, replicaset, job), it shows each Pod, or the reason why there is none.

With -w, a terminal shows the table and updates it in place. Other outputs get one line per change.
The command runs until you stop it (Ctrl-C) or the Pod is gone. With --until-started it ends when
all containers have started or cannot start any more. It retries if the API server does not answer.

Examples:
  kubectl podgate status ordered
  kubectl podgate status deployment/shop
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
pub(crate) struct StatusArgs {
    /// The Pod's name, or a workload as KIND/NAME
    #[arg(value_name = "POD", value_parser = workload::target)]
    pub(crate) target: Target,
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

pub(crate) async fn run(args: &StatusArgs) -> CommandResult {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pods = match &args.target {
        Target::Pod(name) => {
            let pod = cluster.get_pod(name).await?;
            if args.watch || args.until_started {
                return watch::watch(args, name, cluster, pod).await;
            }
            vec![pod]
        }
        Target::Workload { .. } if args.watch || args.until_started => {
            return Err("-w and --until-started follow one Pod; pass the name of a Pod".into());
        }
        Target::Workload { api_path, resource, name } => require_pods(&cluster, api_path, resource, name).await?,
    };
    let mut views = Vec::new();
    for pod in &pods {
        views.push(view_with_log(&cluster, pod).await);
    }
    let text = match (args.output, &args.target) {
        (OutputFormat::Text, _) => views.iter().map(text::render).collect::<Vec<_>>().join("\n"),
        (OutputFormat::Json, Target::Pod(_)) => to_json(&views[0]),
        (OutputFormat::Json, Target::Workload { .. }) => to_json(&views),
    };
    write_stdout(&text)?;
    Ok(watch::exit_code(views.iter().all(|view| view.started)))
}

/// Returns the view of a Pod, with the reasons from the logs of its gates: without a sidecar, only the gate's log has
/// the last result of each probe.
async fn view_with_log(cluster: &Cluster, pod: &Pod) -> View {
    let mut view = view::view(pod, &cluster.namespace, clock::wall_clock());
    for row in view.containers.iter().filter(|row| row.asks && !row.waits_for.is_empty()) {
        let line = cluster.last_log_line(&view.pod, &row.name).await.unwrap_or_default();
        let reason = line.trim_end().split_once(": waiting for ").map(|(_, reason)| reason);
        view.notes.extend(reason.map(|reason| format!("{} waits for {reason}.", row.name)));
    }
    if pod.metadata.annotations.iter().flatten().any(|(key, _)| key == keys::INJECTION_RECORD) {
        view.notes.extend(outdated_note(cluster, &view.pod).await);
    }
    view
}

/// Returns a note if the Pod's injected parts do not match its probes and its order. Reads the Pod again, because
/// [`Pod`](crate::pod::Pod) has only the fields that a view needs.
async fn outdated_note(cluster: &Cluster, name: &str) -> Option<String> {
    let pod = cluster.get(&format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace)).await.ok()?;
    let options = Options { is_from_api: true, ..Options::new("podgate") };
    let new = inject::strip(&pod).ok()?.inject(&options, &KnownFacts::default()).ok()?;
    let found = inject::outdated(&pod, &new.value).filter(|finding| finding.level == Level::Error)?;
    Some(format!("The injected parts are outdated: {}. Inject the Pod's manifest again, and apply it.", found.message))
}

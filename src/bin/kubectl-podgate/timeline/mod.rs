//! `kubectl podgate timeline`: draws the start of one Pod as a chart.

pub(crate) mod build;
mod notes;
pub(crate) mod shape;
pub(crate) mod text;

use crate::clock;
use crate::cluster::{Cluster, ConnectionArgs, parse_pod_name};
use crate::common_args::OutputFormat;
use crate::error::CommandResult;
use crate::output::{print, to_json};
use clap::Args;
use k8s_openapi::api::core::v1::Event;
use serde::Deserialize;

const HELP: &str = "\
For each container, the chart shows when its image was pulled, when it started, how long its gate
waited, and when it was Ready. The sidecar has recorded times in milliseconds. Times of the kubelet
and of events have whole seconds; they are marked ~, because the real time is up to 1 s later.

Examples:
  kubectl podgate timeline ordered
  kubectl podgate timeline ordered -o json | jq '.containers[] | {name, started, ready}'

Exit codes:
  0    success
  1    the Pod could not be read: not found, no connection, or access denied";

/// Draw the start of a Pod: when each container was pulled, started and Ready
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TimelineArgs {
    /// The Pod's name
    #[arg(value_name = "POD", value_parser = parse_pod_name)]
    pub(crate) pod: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Print a text chart or a json object
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: OutputFormat,
    /// Draw the text chart this wide [default: the terminal's width]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

pub(crate) async fn run(args: &TimelineArgs) -> CommandResult {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    let events = events(&cluster, pod.metadata.uid.as_deref().unwrap_or_default()).await;
    let timeline = build::build(&pod, events.as_deref(), &cluster.namespace, clock::wall_clock());
    print(&render(&timeline, args.output, args.width))
}

/// Renders a timeline in this format. `width` replaces the terminal's width.
pub(crate) fn render(timeline: &shape::Timeline, format: OutputFormat, width: Option<u16>) -> String {
    match format {
        OutputFormat::Text => text::render(timeline, width),
        OutputFormat::Json => to_json(timeline),
    }
}

/// Returns the Pod's events, or `None` if the events cannot be read. The timeline is also built without events.
async fn events(cluster: &Cluster, uid: &str) -> Option<Vec<Event>> {
    let path =
        format!("/api/v1/namespaces/{}/events?fieldSelector=involvedObject.uid%3D{uid}&limit=500", cluster.namespace);
    let list = cluster.get(&path).await.ok()?;
    Some(list["items"].as_array()?.iter().filter_map(|item| Event::deserialize(item).ok()).collect())
}

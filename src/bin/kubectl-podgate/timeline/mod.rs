//! `kubectl podgate timeline`: draws the start of one Pod as a chart.

mod args;
pub(crate) mod build;
mod notes;
mod scale;
pub(crate) mod shape;
mod svg;
pub(crate) mod text;

pub(crate) use args::{Output, Timeline};

use crate::clock;
use crate::cluster::Cluster;
use crate::output::{to_json, write_stdout};
use k8s_openapi::api::core::v1::Event;
use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;

pub(crate) async fn run(args: &Timeline) -> Result<ExitCode, String> {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    let events = events(&cluster, pod.metadata.uid.as_deref().unwrap_or_default()).await;
    let timeline = build::build(&pod, events.as_deref(), &cluster.namespace, clock::wall_clock());
    write_stdout(&render(&timeline, args.output, args.width))?;
    Ok(ExitCode::SUCCESS)
}

/// Renders a timeline in this format. `width` replaces the terminal's width.
pub(crate) fn render(timeline: &shape::Timeline, format: Output, width: Option<u16>) -> String {
    match format {
        Output::Text => text::render(timeline, width),
        Output::Svg => svg::render(timeline),
        Output::Json => to_json(timeline),
    }
}

/// Returns the Pod's events, or `None` if the events cannot be read. The timeline is also built without events.
async fn events(cluster: &Cluster, uid: &str) -> Option<Vec<Event>> {
    let path =
        format!("/api/v1/namespaces/{}/events?fieldSelector=involvedObject.uid%3D{uid}&limit=500", cluster.namespace);
    let request = hyper::Request::get(path).body(Vec::new()).ok()?;
    let list: Value = cluster.wait_for(cluster.client.request(request)).await.ok()?;
    Some(list["items"].as_array()?.iter().filter_map(|item| Event::deserialize(item).ok()).collect())
}

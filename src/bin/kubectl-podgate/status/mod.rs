//! `kubectl podgate status`: shows one Pod, once or continuously.

mod args;
pub(crate) mod screen;
mod text;
mod watch;

pub(crate) use args::Status;

use crate::clock;
use crate::cluster::Cluster;
use crate::common_args::OutputFormat;
use crate::output::{to_json, write_stdout};
use crate::pod::view;
use std::process::ExitCode;

pub(crate) async fn run(args: &Status) -> Result<ExitCode, String> {
    let cluster = Cluster::from_args(&args.connection).await?;
    let pod = cluster.get_pod(&args.pod).await?;
    if args.watch || args.until_started {
        return watch::watch(args, cluster, pod).await;
    }
    let view = view::view(&pod, &cluster.namespace, clock::wall_clock());
    let text = match args.output {
        OutputFormat::Text => text::render(&view),
        OutputFormat::Json => to_json(&view),
    };
    write_stdout(&text)?;
    Ok(watch::exit_code(&view))
}

//! `kubectl podgate status`: one look at one pod, or many.

mod args;
mod screen;
#[cfg(test)]
mod tests;
mod text;
mod watch;

pub(crate) use args::Status;

use crate::cluster::Cluster;
use crate::output::{json, write_out};
use crate::pod::view;
use crate::values::Output;
use crate::{clock, runtime};
use std::process::ExitCode;

pub(crate) fn run(args: &Status) -> ExitCode {
    runtime::block_on(show(args))
}

async fn show(args: &Status) -> Result<ExitCode, String> {
    let cluster = Cluster::of(&args.connection).await?;
    let pod = cluster.pod(&args.pod).await?;
    if args.watch || args.until_started {
        return watch::watch(args, cluster, pod).await;
    }
    let view = view::view(&pod, &cluster.namespace, clock::wall());
    let text = match args.output {
        Output::Text => text::text(&view),
        Output::Json => json(&view)?,
    };
    write_out(&text)?;
    Ok(watch::exit(&view))
}

//! `kubectl podgate status`: one look at one pod.

mod args;
mod gate;
mod notes;
mod text;
mod view;
#[cfg(test)]
mod view_tests;

pub(crate) use args::Status;

use crate::api::Cluster;
use crate::{clock, runtime};
use args::Output;
use std::io::Write;
use std::process::ExitCode;

/// Exit code when not all containers have started.
const NOT_STARTED: u8 = 3;

pub(crate) fn run(args: &Status) -> ExitCode {
    runtime::block_on(show(args))
}

async fn show(args: &Status) -> Result<ExitCode, String> {
    let cluster = Cluster::of(&args.connection).await?;
    let pod = cluster.pod(&args.pod).await?;
    let view = view::view(&pod, &cluster.namespace, clock::wall());
    let printed = match args.output {
        // Colours for a terminal alone, and not where NO_COLOR asks for none.
        Output::Text => anstream::AutoStream::auto(std::io::stdout()).write_all(text::text(&view).as_bytes()),
        Output::Json => serde_json::to_string_pretty(&view)
            .map_err(std::io::Error::other)
            .and_then(|json| writeln!(std::io::stdout(), "{json}")),
    };
    printed.map_err(|error| format!("can't write: {error}"))?;
    Ok(if view.started { ExitCode::SUCCESS } else { NOT_STARTED.into() })
}

//! `kubectl podgate check`: what is wrong with an order, and what will come of it, before it is applied.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the command line |
//! | `look` | one template looked at |
//! | `locate` | where in a file a finding is |
//! | `text`, `json`, `sarif` | what is printed |
//! | `server` | what the cluster is asked |

mod args;
mod json;
mod locate;
mod look;
mod sarif;
mod server;
mod text;

pub(crate) use args::Check;

use crate::output::{fail_all, say, write_out};
use crate::registry::images::look_up;
use crate::runtime;
use args::Output;
use look::Looked;
use podgate::order::finding::Level;
use std::process::ExitCode;

pub(crate) fn run(args: &Check) -> ExitCode {
    check(args).unwrap_or_else(|lines| fail_all(&lines))
}

fn check(args: &Check) -> Result<ExitCode, Vec<String>> {
    let sources = args.manifests.read()?;
    let images = args.images.resolve_images.then(|| look_up(&sources, &args.images)).transpose()?.unwrap_or_default();
    if args.server {
        return Ok(runtime::block_on(async { finish(args, &server::ask(args, &sources, &images).await?) }));
    }
    finish(args, &look::all(&sources, &images, args.kubernetes)).map_err(|line| vec![line])
}

fn finish(args: &Check, looked: &Looked<'_>) -> Result<ExitCode, String> {
    let text = match args.output {
        Output::Text => text::print(looked, args.quiet),
        Output::Json => json::print(looked, args.quiet)?,
        Output::Sarif => sarif::print(looked)?,
    };
    write_out(&text)?;
    if args.output == Output::Text && looked.templates.is_empty() {
        say("nothing here declares an order; podgate.io/order on a Pod, or on a workload's template, would");
    }
    let worst = if args.strict { Level::Warning } else { Level::Error };
    Ok(if looked.count(|level| level >= worst) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

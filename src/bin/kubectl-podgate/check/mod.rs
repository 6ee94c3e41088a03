//! `kubectl podgate check`: what is wrong with an order, and what will come of it, before it is applied.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the command line |
//! | `analyze` | one template looked at |
//! | `locate` | where in a file a finding is |
//! | `text`, `json`, `sarif` | what is printed |
//! | `server` | what the cluster is asked |

mod analyze;
mod args;
mod json;
mod locate;
mod sarif;
mod server;
mod text;

pub(crate) use args::Check;

use crate::output::{fail_all, print_stderr, write_stdout};
use crate::registry::images::look_up_images;
use crate::runtime;
use analyze::Analysis;
use args::ReportFormat;
use podgate::order::finding::Level;
use std::process::ExitCode;

pub(crate) fn run(args: &Check) -> ExitCode {
    check(args).unwrap_or_else(|lines| fail_all(&lines))
}

fn check(args: &Check) -> Result<ExitCode, Vec<String>> {
    let sources = args.manifests.read()?;
    let images =
        args.images.resolve_images.then(|| look_up_images(&sources, &args.images)).transpose()?.unwrap_or_default();
    if args.server {
        return Ok(runtime::block_on(async {
            print_report(args, &server::analyze_with_cluster(args, &sources, &images).await?)
        }));
    }
    print_report(args, &analyze::analyze_all(&sources, &images, args.kubernetes)).map_err(|line| vec![line])
}

fn print_report(args: &Check, looked: &Analysis<'_>) -> Result<ExitCode, String> {
    let text = match args.output {
        ReportFormat::Text => text::render(looked, args.quiet),
        ReportFormat::Json => json::render(looked, args.quiet)?,
        ReportFormat::Sarif => sarif::render(looked)?,
    };
    write_stdout(&text)?;
    if args.output == ReportFormat::Text && looked.templates.is_empty() {
        print_stderr("nothing here declares an order; podgate.io/order on a Pod, or on a workload's template, would");
    }
    let worst = if args.strict { Level::Warning } else { Level::Error };
    Ok(if looked.count(|level| level >= worst) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

//! `kubectl podgate check`: findings and forecasts for declared orders, before they are applied.

mod analyze;
mod args;
mod json;
pub(crate) mod text;

pub(crate) use args::Check;

use crate::common_args::OutputFormat;
use crate::output::{print_stderr, write_stdout};
use crate::registry::images::resolve_images;
use crate::yaml::files::ignored_message;
use analyze::Analysis;
use podgate::order::finding::Level;
use std::process::ExitCode;

pub(crate) fn run(args: &Check) -> Result<ExitCode, Vec<String>> {
    let sources = args.manifests.read();
    if let Some(line) = ignored_message(&sources).filter(|_| !args.quiet) {
        print_stderr(Level::Note, &line);
    }
    let images = resolve_images(&sources, &args.images)?.unwrap_or_default();
    print_report(args, analyze::analyze_all(&sources, &images, args.kubernetes)).map_err(|line| vec![line])
}

fn print_report(args: &Check, mut analysis: Analysis<'_>) -> Result<ExitCode, String> {
    let strict = args.findings.strict;
    analysis.findings.retain(|located| args.findings.includes(located.finding.rule, located.finding.level));
    let text = match args.output {
        OutputFormat::Text => text::render(&analysis, args.quiet),
        OutputFormat::Json => json::render(&analysis, args.quiet),
    };
    write_stdout(&text)?;
    let is_empty = analysis.findings.is_empty() && args.output == OutputFormat::Text;
    if !analysis.has_order && (strict || is_empty) {
        let message = "no order declared; set the annotation podgate.io/order on a Pod or a workload's Pod template";
        print_stderr(if strict { Level::Error } else { Level::Note }, message);
    }
    let worst = if strict { Level::Warning } else { Level::Error };
    let has_failed = analysis.count(|level| level >= worst) > 0 || strict && !analysis.has_order;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

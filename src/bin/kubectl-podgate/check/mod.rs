//! `kubectl podgate check`: findings and forecasts for declared orders, before they are applied.

mod analyze;
mod json;
pub(crate) mod text;

use crate::common_args::{FindingArgs, OutputFormat};
use crate::output::{print_stderr, write_stdout};
use crate::registry::ImageArgs;
use crate::registry::images::resolve_images;
use crate::yaml::ManifestArgs;
use crate::yaml::files::ignored_message;
use analyze::Analysis;
use clap::Args;
use podgate::order::finding::Level;
use podgate::order::lint::Version;
use std::process::ExitCode;

const HELP: &str = "\
Reports errors and pitfalls of declared orders, each with its place in the file and a fix. For each
template with an order, it forecasts the start and stop order, which containers start in parallel,
the longest wait, and the costs. It checks injected manifests as they were before injection, and
finds outdated injected parts.

Examples:
  kubectl podgate check deploy.yaml
  helm template shop ./chart | kubectl podgate check --strict -
  kubectl podgate check -R manifests/ --kubernetes 1.34 --ignore native-would-do,short-grace

Exit codes:
  0    no errors
  1    errors, or a file could not be read; with --strict also warnings, or no order is declared";

const RESOLVE: &str = "Read missing commands from the registry, as inject does";

/// Check declared orders in manifests and forecast the start
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("resolve_images", |arg| arg.help(RESOLVE)), mut_arg("no_pin", |arg| arg.hide(true)))]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Print text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) findings: FindingArgs,
    /// Print findings only, without forecasts
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Check for this Kubernetes version, such as 1.34
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes: Option<Version>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}

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

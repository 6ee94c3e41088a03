//! `kubectl podgate check`: findings and forecasts for declared orders, before they are applied.

mod analyze;
pub(crate) mod text;

use crate::common_args::{FindingArgs, OutputFormat};
use crate::error::CommandResult;
use crate::orders;
use crate::output::{print_stderr, to_json, write_stdout};
use crate::registry::ImageArgs;
use crate::registry::images::resolve_images;
use crate::yaml::files::ignored_message;
use crate::yaml::{LocatedFinding, ManifestArgs};
use analyze::{Analysis, AnalysisInputs, CheckedTemplate};
use clap::Args;
use podgate::order::assigned::AssignedOrders;
use podgate::order::finding::Level;
use podgate::order::lint::{LintReport, Version};
use podgate::order::plan::ContainerPlan;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Reports errors and pitfalls of declared orders, each with its place in the file and a fix. For each
template with an order, it forecasts the start and stop order, which containers start in parallel,
the longest wait, and the costs. It checks injected manifests as they were before injection, and
finds outdated injected parts. With --orders, it checks the orders that the webhook assigns in each
namespace. A manifest without metadata.namespace counts as one of the namespace default. Without an
order, it reports what Kubernetes does not wait for, probes that cannot pass, and endless Jobs.

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
pub(crate) struct CheckArgs {
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
    /// Check Pods without an order with the webhook's file of orders
    #[arg(long, value_name = "FILE")]
    pub(crate) orders: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
}

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let sources = args.manifests.read();
    let ignored = ignored_message(&sources).filter(|_| !args.quiet);
    ignored.iter().for_each(|line| print_stderr(Level::Note, line));
    let images = resolve_images(&sources, &args.images)?.unwrap_or_default();
    let orders = args.orders.as_deref().map_or_else(|| Ok(AssignedOrders::default()), orders::read)?;
    let inputs = AnalysisInputs { images: &images, kubernetes: args.kubernetes, orders: &orders };
    let analysis = analyze::analyze(&sources, &inputs);
    for order in orders.iter().filter(|order| !args.quiet && !analysis.assigned.contains(&order.name)) {
        print_stderr(Level::Note, &format!("{} matches no Pod in these manifests", order.name));
    }
    print_report(args, analysis)
}

fn print_report(args: &CheckArgs, mut analysis: Analysis<'_>) -> CommandResult {
    let strict = args.findings.strict;
    analysis.findings.retain(|located| args.findings.includes(located.finding.rule, located.finding.level));
    let text = match args.output {
        OutputFormat::Text => text::render(&analysis, args.quiet),
        OutputFormat::Json => render_json(&analysis, args.quiet),
    };
    write_stdout(&text)?;
    let is_empty = analysis.findings.is_empty() && args.output == OutputFormat::Text;
    if !analysis.has_order && (strict || is_empty) {
        let message = "no order declared; set the annotation podgate.io/order on a Pod or a workload's Pod template";
        print_stderr(if strict { Level::Error } else { Level::Note }, message);
    }
    let worst = if strict { Level::Warning } else { Level::Error };
    let has_failed = analysis.count_findings(|level| level >= worst) > 0 || strict && !analysis.has_order;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the JSON output. docs/check.md documents the fields.
fn render_json(analysis: &Analysis<'_>, is_quiet: bool) -> String {
    let templates: Vec<Value> =
        if is_quiet { Vec::new() } else { analysis.templates.iter().map(template_json).collect() };
    to_json(&json!({
        "findings": analysis.findings.iter().map(finding_json).collect::<Value>(),
        "templates": templates,
        "errors": analysis.count_findings(|level| level == Level::Error),
        "warnings": analysis.count_findings(|level| level == Level::Warning),
        "notes": analysis.count_findings(|level| level == Level::Note),
    }))
}

fn finding_json(located: &LocatedFinding<'_>) -> Value {
    let finding = &located.finding;
    json!({
        "rule": finding.rule,
        "level": finding.level.as_str(),
        "file": located.file,
        "line": located.start.line,
        "column": located.start.column,
        "endLine": located.end.line,
        "endColumn": located.end.column,
        "place": finding.at.to_string(),
        "message": finding.message,
        "fix": finding.fix,
    })
}

fn template_json(template: &CheckedTemplate<'_>) -> Value {
    let mut value = json!({
        "name": template.name,
        "file": template.file,
        "line": template.position.line,
        "place": template.place.to_string(),
        "injected": template.is_injected,
        "works": template.outlook.is_some(),
    });
    if let Some((plan, LintReport { forecast, native_advice: native, .. })) = &template.outlook {
        value["containers"] = plan.containers.iter().map(container_json).collect();
        value["starts"] = json!(forecast.start_steps);
        value["stops"] = json!(forecast.stop_steps);
        value["longestWaitSeconds"] = json!(forecast.longest_wait.as_secs_f64());
        value["graceSeconds"] = json!(plan.grace.as_secs());
        value["publish"] = json!(plan.publish.as_str());
        value["nativeSidecars"] = json!(native);
    }
    value
}

fn container_json(planned: &ContainerPlan) -> Value {
    json!({
        "name": planned.name,
        "mode": planned.mode(),
        "because": planned.mode_reason,
        "after": planned.after.iter().map(ToString::to_string).collect::<Value>(),
        "checks": planned.checks().iter().map(ToString::to_string).collect::<Value>(),
        "ready": planned.ready.as_ref().map(|check| json!({
            "check": check.text,
            "runsIn": if check.is_network() { "sidecar" } else { "container" },
        })),
        "restartsWith": planned.restarts_with(),
        "timeoutSeconds": planned.timeout.as_secs_f64(),
        "onTimeout": if planned.continue_on_timeout { "continue" } else { "fail" },
        "failFast": planned.fail_fast,
        "outlives": planned.outlives,
        "stopAfter": planned.stop_after,
        "quit": planned.quit,
    })
}

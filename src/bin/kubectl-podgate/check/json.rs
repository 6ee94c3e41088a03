//! Findings and forecasts as one JSON object. docs/check.md documents the fields.

use super::analyze::{Analysis, CheckedTemplate};
use crate::output;
use crate::yaml::LocatedFinding;
use podgate::order::finding::Level;
use podgate::order::lint::LintReport;
use podgate::order::plan::ContainerPlan;
use serde_json::{Value, json};

pub(super) fn render(analysis: &Analysis<'_>, is_quiet: bool) -> String {
    let templates: Vec<Value> =
        if is_quiet { Vec::new() } else { analysis.templates.iter().map(template_json).collect() };
    output::to_json(&json!({
        "findings": analysis.findings.iter().map(finding_json).collect::<Value>(),
        "templates": templates,
        "errors": analysis.count(|level| level == Level::Error),
        "warnings": analysis.count(|level| level == Level::Warning),
        "notes": analysis.count(|level| level == Level::Note),
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
        let native_json = |(name, probe): &(String, Value)| json!({"name": name, "startupProbe": probe});
        value["nativeSidecars"] = native.as_ref().map(|list| list.iter().map(native_json).collect::<Value>()).into();
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

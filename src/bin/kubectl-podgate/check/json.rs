//! All of it as one JSON object, as docs/check.md promises it.

use super::locate::Located;
use super::look::{Looked, Template};
use crate::output;
use podgate::order::declare::{Publish, Sidecar};
use podgate::order::finding::Level;
use podgate::order::lint::Outlook;
use podgate::order::plan::Planned;
use serde_json::{Value, json};

pub(super) fn print(looked: &Looked<'_>, is_quiet: bool) -> Result<String, String> {
    let templates: Vec<Value> = if is_quiet { Vec::new() } else { looked.templates.iter().map(template).collect() };
    output::json(&json!({
        "findings": looked.findings.iter().map(finding).collect::<Value>(),
        "templates": templates,
        "errors": looked.count(|level| level == Level::Error),
        "warnings": looked.count(|level| level == Level::Warning),
        "notes": looked.count(|level| level == Level::Note),
    }))
}

fn finding(located: &Located<'_>) -> Value {
    let finding = &located.finding;
    json!({
        "rule": finding.rule,
        "level": finding.level.as_str(),
        "file": located.file,
        "line": located.start.line,
        "column": located.start.column,
        "endLine": located.end.line,
        "endColumn": located.end.column,
        "place": located.place.to_string(),
        "what": finding.what,
        "mend": finding.mend,
    })
}

fn template(template: &Template<'_>) -> Value {
    let mut value = json!({
        "name": template.name,
        "file": template.file,
        "line": template.at.line,
        "place": template.place.to_string(),
        "injected": template.is_injected,
        "works": template.outlook.is_some(),
    });
    if let Some((plan, Outlook { forecast, native, .. })) = &template.outlook {
        value["containers"] = plan.containers.iter().map(container).collect();
        value["starts"] = json!(forecast.starts);
        value["stops"] = json!(forecast.stops);
        value["longestWaitSeconds"] = json!(forecast.longest.as_secs_f64());
        value["graceSeconds"] = json!(plan.grace.as_secs());
        value["sidecar"] = json!(match plan.sidecar {
            Sidecar::Native => "native",
            Sidecar::First => "first",
        });
        value["publish"] = json!(match plan.publish {
            Publish::Api => "api",
            Publish::Board => "board",
        });
        value["nativeSidecars"] = native.as_ref().map_or(Value::Null, |advice| json!(advice.manifest()));
    }
    value
}

fn container(planned: &Planned) -> Value {
    json!({
        "name": planned.name,
        "mode": planned.mode,
        "because": planned.because,
        "after": planned.after.iter().map(ToString::to_string).collect::<Value>(),
        "timeoutSeconds": planned.timeout.as_secs_f64(),
        "onTimeout": if planned.continue_on_timeout { "continue" } else { "fail" },
        "failFast": planned.fail_fast,
        "staysFor": planned.stays_for,
        "stopAfter": planned.stop_after,
    })
}

//! Findings as SARIF 2.1.0 (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>), for code scanning.

use super::analyze::Analysis;
use crate::output;
use crate::yaml::LocatedFinding;
use podgate::order::lint::rules::{self, section_url};
use podgate::order::release;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) fn render(analysis: &Analysis<'_>) -> String {
    let rules: BTreeSet<&str> = analysis.findings.iter().map(|located| located.finding.rule).collect();
    let numbers: BTreeMap<&str, usize> = rules.into_iter().enumerate().map(|(number, rule)| (rule, number)).collect();
    output::to_json(&json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "podgate",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": release::REPOSITORY,
                "rules": numbers.keys().map(|rule| rule_object(rule)).collect::<Value>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": analysis.findings.iter().map(|located| result_object(located, &numbers)).collect::<Value>(),
        }],
    }))
}

/// Returns the SARIF object of a rule. GitHub requires the short description, the full description and the help.
fn rule_object(id: &str) -> Value {
    let rule = rules::find(id);
    let summary = message_object(&rule.map_or_else(|| id.replace('-', " "), |rule| rule.summary.to_owned()));
    let url = section_url(id);
    let help = json!({"text": format!("See {url}."), "markdown": format!("See [{id}]({url}).")});
    json!({"id": id, "shortDescription": summary, "fullDescription": summary, "helpUri": url, "help": help})
}

fn result_object(located: &LocatedFinding<'_>, numbers: &BTreeMap<&str, usize>) -> Value {
    let finding = &located.finding;
    json!({
        "ruleId": finding.rule,
        "ruleIndex": numbers.get(finding.rule),
        "level": finding.level.as_str(),
        "message": message_object(&finding.text()),
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri(located.file)},
                "region": {
                    "startLine": located.start.line,
                    "startColumn": located.start.column,
                    "endLine": located.end.line,
                    "endColumn": located.end.column,
                },
            },
            "logicalLocations": [{"fullyQualifiedName": finding.at.to_string()}],
        }],
    })
}

/// Returns a SARIF message object. Appends a period unless the text ends with punctuation.
fn message_object(text: &str) -> Value {
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    json!({"text": format!("{text}{stop}")})
}

/// Returns a path as a URI reference, as SARIF requires. Relative paths remain relative.
fn uri(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let path: String = file
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    if path.starts_with('/') { format!("file://{path}") } else { path.trim_start_matches("./").to_owned() }
}

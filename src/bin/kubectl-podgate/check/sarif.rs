//! The findings as SARIF 2.1.0 (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>), as code scanning takes it.

use super::locate::Located;
use super::look::Looked;
use podgate::order::finding::Level;
use podgate::order::lint::rules;
use podgate::order::release;
use serde::Serialize;
use std::collections::BTreeMap;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
const HELP: &str = "Each result says how to mend it; all rules are listed in podgate's docs/check.md";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    information_uri: &'static str,
    rules: Vec<Rule>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    short_description: Text,
    /// The same; GitHub wants both.
    full_description: Text,
    /// GitHub takes no rule without.
    help: Text,
}

#[derive(Debug, Serialize)]
struct Text {
    text: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Text,
    locations: [Location; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Physical,
    logical_locations: [Logical; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Logical {
    fully_qualified_name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Debug, Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
    start_column: usize,
    end_line: usize,
    end_column: usize,
}

pub(super) fn print(looked: &Looked) -> Result<String, String> {
    let mut numbers: BTreeMap<&'static str, usize> = BTreeMap::new();
    for located in &looked.findings {
        numbers.insert(located.finding.rule, 0);
    }
    for (number, index) in numbers.values_mut().enumerate() {
        *index = number;
    }
    let describe = |id: &&'static str| {
        let says = rules::get(id).map_or_else(|| id.replace('-', " "), |rule| rule.says.to_owned());
        Rule { id, short_description: sentence(&says), full_description: sentence(&says), help: sentence(HELP) }
    };
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [Run {
            tool: Tool {
                driver: Driver {
                    name: "podgate",
                    version: env!("CARGO_PKG_VERSION"),
                    information_uri: release::REPOSITORY,
                    rules: numbers.keys().map(describe).collect(),
                },
            },
            column_kind: "unicodeCodePoints",
            results: looked.findings.iter().map(|located| found(located, &numbers)).collect(),
        }],
    };
    let text = serde_json::to_string_pretty(&log).map_err(|error| format!("can't write: {error}"))?;
    Ok(format!("{text}\n"))
}

fn found(located: &Located, numbers: &BTreeMap<&'static str, usize>) -> Found {
    let finding = &located.finding;
    let mend = if finding.mend.is_empty() { String::new() } else { format!("; {}", finding.mend) };
    Found {
        rule_id: finding.rule,
        rule_index: numbers.get(finding.rule).copied().unwrap_or_default(),
        level: match finding.level {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        },
        message: sentence(&format!("{}{mend}", finding.what)),
        locations: [Location {
            physical_location: Physical {
                artifact_location: Artifact { uri: uri(&located.file) },
                region: Region {
                    start_line: located.start.line,
                    start_column: located.start.column,
                    end_line: located.end.line,
                    end_column: located.end.column,
                },
            },
            logical_locations: [Logical { fully_qualified_name: located.place.to_string() }],
        }],
    }
}

/// With a full stop, where it does not ask.
fn sentence(text: &str) -> Text {
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    Text { text: format!("{text}{stop}") }
}

/// A path as the URI reference that SARIF asks for: relative ones stay so.
fn uri(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let path: String = file
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    if path.starts_with('/') { format!("file://{path}") } else { path.trim_start_matches("./").to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uri_references() {
        assert_eq!(uri("./a b/ü.yaml"), "a%20b/%C3%BC.yaml");
        assert_eq!(uri("/x/y.yaml"), "file:///x/y.yaml");
        assert_eq!(uri("<stdin>"), "%3Cstdin%3E");
    }
}

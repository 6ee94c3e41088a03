//! Tests of `docs/rules.md`: each rule has a section, which starts with its levels and its finding. The section shows the
//! changed lines of a manifest in `tests/tool/book/rules`, which causes the finding without the change.

use super::page::{Copied, Page};
use podgate::core::container_list::CONTAINERS_MAX;
use podgate::order::lint::rules::RULES;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = "docs/rules.md";
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool/book/rules");

/// Rules without an example, each with the reason why no example can run here.
const NOT_RUN: [(&str, &str); 9] = [
    ("image-by-tag", "only the webhook reports this rule; covered by tests/webhook"),
    ("image-pinned", "needs a registry; covered by tests/tool/registry"),
    ("image-without-command", "needs a registry; covered by tests/tool/registry"),
    ("not-reversible", "an internal error that no known manifest causes"),
    ("order-assigned", "needs a file of orders; covered by tests/manifests/check"),
    ("order-does-not-fit", "needs a file of orders; covered by tests/manifests/check and tests/webhook"),
    ("suggested-order", "only `suggest` reports this rule; covered by tests/manifests/check"),
    ("template-too-large", "an example would need 128 KiB; covered by tests/webhook"),
    ("too-many-containers", "an example would take 201 containers; the test makes one"),
];

/// Finding as reported by `check` or `inject`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reported {
    rule: String,
    level: String,
}

/// Returns the rule and the page section of each rule, in the order of the page.
fn sections() -> Vec<(String, Page)> {
    Page::read(PAGE).sections("### ")
}

/// Returns the levels of a rule's findings.
fn levels(name: &str) -> Vec<&'static str> {
    let rule = RULES.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("{name} is not a rule"));
    rule.levels.iter().map(|level| level.as_str()).collect()
}

/// Applies a block of changed lines to a manifest. A line that starts with `-` removes the next equal line of the
/// manifest. A line that starts with a space stands for the next equal line and shows the position. A line that starts
/// with `+` is new.
fn changed(manifest: &str, diff: &Copied) -> Result<String, String> {
    let lines: Vec<&str> = manifest.lines().collect();
    let (mut new, mut rest) = (Vec::new(), lines.as_slice());
    for line in diff.text.lines() {
        let Some(wanted) = line.strip_prefix(['-', ' ']) else {
            new.push(line.strip_prefix('+').ok_or_else(|| format!("{}: a line without +, - or space", diff.at))?);
            continue;
        };
        let found = rest.iter().position(|old| *old == wanted);
        let found = found.ok_or_else(|| format!("{}: the manifest has no such line: {wanted}", diff.at))?;
        let end = if line.starts_with(' ') { found + 1 } else { found };
        new.extend(&rest[..end]);
        rest = &rest[found + 1..];
    }
    new.extend(rest);
    Ok(new.join("\n") + "\n")
}

/// Runs a manifest with the arguments in its first comment, or with `check`.
fn run(manifest: &str) -> Vec<Reported> {
    let comment = manifest.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("check");
    let words: Vec<&str> = comment.split_whitespace().collect();
    let format: &[&str] = if words[0] == "check" { &["-o", "json"] } else { &[] };
    let output = super::tool(&[words.as_slice(), format, &["-f", "-"]].concat(), manifest);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if words[0] != "check" {
        return err.lines().filter_map(reported).collect();
    }
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}\n{manifest}"));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let findings = found["findings"].as_array().unwrap().iter();
    findings.map(|finding| Reported { rule: text(finding, "rule"), level: text(finding, "level") }).collect()
}

/// Parses a line of `inject`: `FILE:LINE:COLUMN: LEVEL: TEXT [RULE]`.
fn reported(line: &str) -> Option<Reported> {
    let (_, rule) = line.strip_suffix(']')?.rsplit_once(" [")?;
    let level = line.split(": ").find(|part| ["error", "warning", "note"].contains(part))?;
    Some(Reported { rule: rule.to_owned(), level: level.to_owned() })
}

#[test]
fn each_rule_has_a_section() {
    let sections = sections();
    let named: Vec<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    let sectioned: BTreeSet<&str> = named.iter().copied().collect();
    let odd: Vec<_> = sectioned.symmetric_difference(&rules).collect();
    assert!(odd.is_empty(), "either a rule without a section of {PAGE} or a section without a rule: {odd:?}");
    assert_eq!(named.len(), rules.len(), "{PAGE} explains a rule twice");
}

#[test]
fn each_section_starts_with_the_levels_and_the_finding() {
    for (name, section) in sections() {
        let rule = RULES.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("{name} is not a rule"));
        let start = format!("*{}*: {}", levels(&name).join(" or "), rule.summary);
        let text = section.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
        assert!(text.trim_start().starts_with(&start), "{PAGE}, {name}: must start with {start}");
        let fixes = section.lines().filter(|line| line.starts_with("**Fix**: "));
        assert_eq!(fixes.count(), 1, "{PAGE}, {name}: needs one fix");
    }
}

#[test]
fn each_manifest_belongs_to_a_rule_with_an_example() {
    let files = fs::read_dir(DIRECTORY).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.collect();
    let rules = RULES.iter().filter(|rule| !NOT_RUN.iter().any(|(name, _)| *name == rule.name));
    let expected: BTreeSet<String> = rules.map(|rule| format!("{}.yaml", rule.name)).collect();
    assert_eq!(files, expected, "{DIRECTORY}");
}

/// Returns the errors in the example of a rule's section.
fn faults(rule: &str, section: &Page) -> Vec<String> {
    let fenced = section.fenced();
    if NOT_RUN.iter().any(|(name, _)| *name == rule) {
        let faults = fenced.iter().map(|(_, example)| format!("{}: take {rule} out of NOT_RUN", example.at));
        return faults.collect();
    }
    let [(info, diff)] = &fenced[..] else { return vec![format!("{rule}: needs one example")] };
    if info != "diff" {
        return vec![format!("{}: not a diff", diff.at)];
    }
    let path = format!("{DIRECTORY}/{rule}.yaml");
    let bad = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let good = match changed(&bad, diff) {
        Ok(good) => good,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let (own, others): (Vec<_>, Vec<_>) = run(&bad).into_iter().partition(|reported| reported.rule == rule);
    let levels = levels(rule);
    if own.is_empty() || own.iter().any(|reported| !levels.contains(&reported.level.as_str())) {
        faults.push(format!("{path}: expected {levels:?} of {rule}, found {own:?}"));
    }
    let is_linked = |other: &str| section.lines().any(|line| line.contains(&format!("(#{other})")));
    if others.iter().any(|other| other.level != "note" && !is_linked(&other.rule)) {
        faults.push(format!("{path}: more than {rule}: {others:?}"));
    }
    let found = run(&good);
    if found.iter().any(|reported| reported.level != "note" || reported.rule == rule) {
        faults.push(format!("{}: should be fine: {found:?}", diff.at));
    }
    faults
}

#[test]
fn each_example_is_reported_as_its_section_says() {
    let sections = sections();
    let faults: Vec<String> = sections.iter().flat_map(|(rule, section)| faults(rule, section)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (rule, why) in NOT_RUN {
        assert!(sections.iter().any(|(name, _)| name == rule), "NOT_RUN names {rule}, which is no rule: {why}");
    }
}

#[test]
fn page_names_the_limit_of_containers() {
    let sentence = format!("more than {CONTAINERS_MAX} regular containers");
    assert!(Page::read(PAGE).lines().any(|line| line.contains(&sentence)), "{PAGE} must contain: {sentence}");
}

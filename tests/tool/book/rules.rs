//! Tests of `docs/rules.md`: each rule has a section, and each example gives the findings that its section describes.

use super::page::{Copied, Page};
use podgate::core::container_list::CONTAINERS_MAX;
use podgate::order::lint::rules::RULES;
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) const PAGE: &str = "docs/rules.md";

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

/// Applies a block of changed lines to the example before it. A line that starts with `-` removes the next equal line
/// of the example. A line that starts with a space stands for the next equal line and shows the position. A line that
/// starts with `+` is new.
fn changed(example: &Copied, diff: &Copied) -> Result<Copied, String> {
    let lines: Vec<&str> = example.text.lines().collect();
    let (mut new, mut rest) = (Vec::new(), lines.as_slice());
    for line in diff.text.lines() {
        let Some(wanted) = line.strip_prefix(['-', ' ']) else {
            new.push(line.strip_prefix('+').ok_or_else(|| format!("{}: a line without +, - or space", diff.at))?);
            continue;
        };
        let found = rest.iter().position(|old| *old == wanted);
        let found = found.ok_or_else(|| format!("{}: the example has no such line: {wanted}", diff.at))?;
        let end = if line.starts_with(' ') { found + 1 } else { found };
        new.extend(&rest[..end]);
        rest = &rest[found + 1..];
    }
    new.extend(rest);
    Ok(Copied { at: diff.at.clone(), text: new.join("\n") + "\n" })
}

/// Runs an example with the arguments after `yaml` in its opening fence.
fn run(info: &str, example: &Copied) -> Vec<Reported> {
    let words: Vec<&str> = info.split_whitespace().skip(1).collect();
    let (command, flags) = words.split_first().unwrap_or((&"check", &[]));
    let format: &[&str] = if *command == "check" { &["-o", "json"] } else { &[] };
    let output = super::tool(&[&[*command], flags, format, &["-f", "-"]].concat(), &example.text);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if *command != "check" {
        return err.lines().filter_map(reported).collect();
    }
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{}: {error}: {err}", example.at));
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

/// Returns the page with the table and the levels of [`RULES`]. Does not change the headings and the order of the
/// rules.
fn page_from_rules(page: &Page) -> String {
    let (mut table, mut category) = (Vec::new(), "");
    for line in page.lines() {
        category = line.strip_prefix("## ").unwrap_or(category);
        let Some(rule) = line.strip_prefix("### ").and_then(|name| RULES.iter().find(|rule| rule.name == name)) else {
            continue;
        };
        let heading = format!("| **{category}** | | |");
        if !table.contains(&heading) {
            table.push(heading);
        }
        let (name, levels) = (rule.name, levels(rule.name).join(" or "));
        table.push(format!("| [`{name}`](#{name}) | {levels} | {} |", rule.summary));
    }
    let (mut text, mut name, mut is_in_table) = (String::new(), "", false);
    for line in page.lines() {
        name = line.strip_prefix("### ").unwrap_or(name);
        is_in_table &= !line.is_empty();
        if line == "| rule | level | finding |" {
            is_in_table = true;
            text += &format!("{line}\n|---|---|---|\n{}\n", table.join("\n"));
        } else if line.starts_with("Level: ") {
            text += &format!("Level: {}\n", levels(name).join(" or "));
        } else if !is_in_table {
            text += &format!("{line}\n");
        }
    }
    text
}

/// Run this test with `PODGATE_REGENERATE=1` to update the page.
#[test]
fn table_and_levels_come_from_the_rules() {
    let page = Page::read(PAGE);
    let (fresh, path) = (page_from_rules(&page), format!("{}/{PAGE}", env!("CARGO_MANIFEST_DIR")));
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let is_current = std::fs::read_to_string(&path).unwrap() == fresh;
    assert!(is_current, "{PAGE} differs from src/order/lint/rules.rs; run this test with PODGATE_REGENERATE=1");
    let leveled = fresh.lines().filter(|line| line.starts_with("Level: ")).count();
    assert_eq!(leveled, RULES.len(), "each section of {PAGE} needs a line `Level: `");
}

/// Returns the errors in the examples of a rule's section.
fn faults(rule: &str, section: &Page) -> Vec<String> {
    let fenced = section.fenced();
    if NOT_RUN.iter().any(|(name, _)| *name == rule) {
        let faults = fenced.iter().map(|(_, example)| format!("{}: take {rule} out of NOT_RUN", example.at));
        return faults.collect();
    }
    let [(info, bad), (good_info, good)] = &fenced[..] else { return vec![format!("{rule}: needs two examples")] };
    if !info.starts_with("yaml") || info != good_info && good_info != "diff" {
        return vec![format!("{}: the fences differ: {info:?}, {good_info:?}", bad.at)];
    }
    let good = if good_info == "diff" { changed(bad, good) } else { Ok(good.clone()) };
    let good = match good {
        Ok(good) => good,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let (own, others): (Vec<_>, Vec<_>) = run(info, bad).into_iter().partition(|reported| reported.rule == rule);
    let levels = levels(rule);
    if own.is_empty() || own.iter().any(|reported| !levels.contains(&reported.level.as_str())) {
        faults.push(format!("{}: expected {levels:?} of {rule}, found {own:?}", bad.at));
    }
    let is_linked = |other: &str| section.lines().any(|line| line.contains(&format!("(#{other})")));
    if others.iter().any(|other| other.level != "note" && !is_linked(&other.rule)) {
        faults.push(format!("{}: more than {rule}: {others:?}", bad.at));
    }
    let found = run(info, &good);
    if found.iter().any(|reported| reported.level != "note" || reported.rule == rule) {
        faults.push(format!("{}: should be fine: {found:?}", good.at));
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

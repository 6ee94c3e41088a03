//! From annotations to what they declare.

use super::declaration::{DEFAULT_TIMEOUT, Declaration, Edge, Publish, RequestedMode, SidecarPlacement, StopOrder};
use super::grammar::{self, Grammar, Item, SyntaxError, quoted};
use super::keys::{self, annotation_place};
use super::nearest::{did_you_mean, nearest};
use super::spec::Spec;

use crate::core::argv::Argv;
use crate::core::until::WaitCondition;
use crate::core::{names, until::WantedState};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time limit: what an `int32` of failed probes, one a second, can count is more.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads the annotations of `template`, whose containers are `spec`; what is wrong with them goes to `findings`, and what is
/// right is in the result all the same.
#[must_use]
pub fn read_annotations(template: &Value, spec: &Spec<'_>, findings: &mut Vec<Finding>) -> Declaration {
    let said = Declaration { timeout: DEFAULT_TIMEOUT, ..Declaration::default() };
    let mut reader = Reader { spec, findings, declaration: said };
    reader.read_labels(template);
    for (key, value) in sorted_entries(template, "annotations", reader.findings) {
        reader.read_annotation(key, value);
    }
    reader.declaration
}

/// The annotations or labels of a template by their keys; the same order whatever serde_json keeps.
fn sorted_entries<'a>(template: &'a Value, field: &str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, &'a Value> {
    let place = Place::root().to("metadata").to(field);
    match place.of(template) {
        Some(Value::Object(fields)) => fields.iter().map(|(key, value)| (key.as_str(), value)).collect(),
        None | Some(Value::Null) => BTreeMap::new(),
        Some(_) => {
            let what = format!("{field} are no list of keys and values");
            findings.push(Finding::error("bad-value", place, what).fix(format!("write {field}: {{KEY: \"VALUE\"}}")));
            BTreeMap::new()
        }
    }
}

struct Reader<'a, 'f> {
    spec: &'a Spec<'a>,
    findings: &'f mut Vec<Finding>,
    declaration: Declaration,
}

impl Reader<'_, '_> {
    fn read_labels(&mut self, template: &Value) {
        for (key, value) in sorted_entries(template, "labels", self.findings) {
            let at = Place::root().to("metadata").to("labels").to(key);
            if key == keys::INJECT {
                if !matches!(value.as_str(), Some("enabled" | "disabled")) {
                    let what = format!("{} is not what the label {key} can be", describe_value(value));
                    let finding = Finding::error("bad-value", at, what);
                    self.findings.push(finding.fix("write \"enabled\" or \"disabled\", in quotes"));
                }
            } else if keys::POD_KEYS.contains(&key)
                || keys::CONTAINER_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
            {
                let what = format!("{key} is an annotation, and says nothing as a label");
                self.findings.push(Finding::error("not-a-label", at, what).fix("move it to metadata.annotations"));
            }
        }
    }

    fn read_annotation(&mut self, key: &str, value: &Value) {
        let at = annotation_place(key);
        let Some((domain, name)) = key.split_once('/') else { return };
        let known =
            keys::POD_KEYS.contains(&key) || keys::CONTAINER_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        if !known {
            return self.report_unknown_key(key, domain, name, at);
        }
        let Some(text) = value.as_str() else {
            let what = format!("an annotation is text, and this is {}", describe_value(value));
            return self.findings.push(Finding::error("bad-value", at, what).fix("put it in quotes"));
        };
        if domain != keys::DOMAIN {
            if let Some(finding) = self.spec.check_name(name, &at, None) {
                let finding = Finding { message: format!("{key}: {}", finding.message), ..finding };
                return self.findings.push(finding);
            }
            let prefix = &key[..key.len() - name.len()];
            return self.read_container_annotation(prefix, name, text, at);
        }
        match key {
            keys::ORDER => self.read_order(text, &at),
            keys::MODE => self.declaration.mode = self.parse_mode(text, &at),
            keys::TIMEOUT => self.declaration.timeout = self.parse_timeout(text, &at),
            keys::ON_TIMEOUT => {
                self.declaration.continue_on_timeout =
                    self.parse_choice(text, &at, &[("fail", false), ("continue", true)])
            }
            keys::FAIL_FAST => {
                self.declaration.fail_fast = self.parse_choice(text, &at, &[("false", false), ("true", true)])
            }
            keys::STOP_ORDER => self.declaration.stop_order = self.parse_stop_order(text, &at),
            keys::SIDECARS => {
                self.declaration.sidecars =
                    self.parse_list(text, &at, grammar::SIDECARS).into_iter().flatten().collect();
            }
            keys::SIDECAR => {
                self.declaration.sidecar_placement = self.parse_choice(
                    text,
                    &at,
                    &[("native", SidecarPlacement::Native), ("first", SidecarPlacement::First)],
                );
            }
            keys::PUBLISH => {
                self.declaration.publish =
                    self.parse_choice(text, &at, &[("api", Publish::Api), ("board", Publish::Board)]);
            }
            // Read by whoever wrote it.
            _ => {}
        }
    }

    /// A key that is none of ours, or not one that belongs into a template.
    fn report_unknown_key(&mut self, key: &str, domain: &str, name: &str, at: Place) {
        let is_written = [names::STATUS_PREFIX, names::SANDBOX_PREFIX, names::OVERRIDE_PREFIX];
        if is_written.iter().any(|prefix| key.starts_with(prefix)) {
            let what = format!("{key} says how a running Pod stands; one that comes with a manifest is never believed");
            return self.findings.push(Finding::warning("copied-state", at, what).fix("take it out"));
        }
        if key == keys::INJECT {
            let what = format!("{key} is a label, and says nothing as an annotation");
            return self.findings.push(Finding::error("not-an-annotation", at, what).fix("move it to metadata.labels"));
        }
        let is_ours = domain == keys::DOMAIN || domain.ends_with(".podgate.io");
        let prefixes = keys::CONTAINER_PREFIXES.map(|prefix| prefix.trim_end_matches('/'));
        let domains = prefixes.into_iter().chain([keys::DOMAIN]);
        if is_ours {
            let meant = match domain {
                keys::DOMAIN => nearest(key, keys::POD_KEYS).map(str::to_owned),
                _ => nearest(domain, domains).map(|near| format!("{near}/{name}")),
            };
            // `podgate.io/after`, `podgate.io/command`: of one container, so its name is missing.
            let of_one = keys::CONTAINER_PREFIXES
                .iter()
                .find(|prefix| domain == keys::DOMAIN && prefix.split('.').next() == Some(name));
            let fix = match (of_one, meant) {
                (Some(prefix), _) => format!("write {prefix}CONTAINER"),
                (None, Some(meant)) => format!("did you mean {meant}?"),
                (None, None) => "docs/declaring.md has all of them".to_owned(),
            };
            let what = format!("podgate knows no annotation {}", quoted(key));
            return self.findings.push(Finding::error("unknown-annotation", at, what).fix(fix));
        }
        // Only names that can't be anybody else's by chance.
        if let Some(near) = nearest(domain, domains) {
            let what = format!("{} is not read: its domain is not podgate's", quoted(key));
            let finding = Finding::warning("unknown-annotation", at, what);
            self.findings.push(finding.fix(format!("did you mean {near}/{name}?")));
        }
    }

    /// An annotation that speaks of one container.
    fn read_container_annotation(&mut self, prefix: &str, name: &str, text: &str, at: Place) {
        match prefix {
            keys::AFTER_PREFIX => {
                for item in self.parse_list(text, &at, grammar::AFTER).into_iter().flatten() {
                    let edge = Edge { waiter: name.to_owned(), until: item.until, at: at.clone(), span: item.span };
                    self.declaration.edges.push(edge);
                }
            }
            keys::MODE_PREFIX => {
                let value = self.parse_mode(text, &at);
                self.declaration.modes.insert(name.to_owned(), value);
            }
            keys::TIMEOUT_PREFIX => {
                let value = self.parse_timeout(text, &at);
                self.declaration.timeouts.insert(name.to_owned(), value);
            }
            _ => match text.parse::<Argv>() {
                Ok(argv) => {
                    self.declaration.commands.insert(name.to_owned(), argv.as_slice().to_vec());
                }
                Err(error) => {
                    let finding = Finding::error("bad-value", at, format!("{} is no command: {error}", quoted(text)));
                    self.findings.push(finding.fix("write [\"/usr/bin/program\", \"argument\"]"));
                }
            },
        }
    }

    fn read_order(&mut self, text: &str, at: &Place) {
        let steps = self.parse_list(text, at, grammar::ORDER);
        for pair in steps.windows(2) {
            for waiter in &pair[1] {
                for item in &pair[0] {
                    let (needs, word) = (item.until.clone(), item.span.clone());
                    let waiter = waiter.until.container.clone();
                    self.declaration.edges.push(Edge { waiter, until: needs, at: at.clone(), span: word });
                }
            }
        }
        for item in steps.last().into_iter().flatten().filter(|item| item.has_explicit_state) {
            let WaitCondition { container, want } = &item.until;
            let what = format!("nobody waits for {container} in this order, so ={} says nothing", want.as_str());
            let finding = Finding::note("state-unused", at.clone(), what).span(item.span.clone());
            self.findings.push(finding.fix(format!("write {container}")));
        }
    }

    fn parse_stop_order(&mut self, text: &str, at: &Place) -> StopOrder {
        match text.trim() {
            "reverse" => StopOrder::Reverse,
            "none" => StopOrder::None,
            _ => StopOrder::Steps(self.parse_list(text, at, grammar::STOP)),
        }
    }

    /// A list of containers, each of which the Pod has, and once; empty if anything is wrong with it.
    fn parse_list(&mut self, text: &str, at: &Place, grammar: Grammar) -> Vec<Vec<Item>> {
        let before = self.findings.len();
        let (steps, faults) = grammar::parse(text, grammar);
        for SyntaxError { span: word, message: what, fix } in faults {
            self.findings.push(Finding::error("bad-order", at.clone(), what).fix(fix).span(word));
        }
        let mut seen = BTreeSet::new();
        for item in steps.iter().flatten() {
            let name = &item.until.container;
            if let Some(finding) = self.spec.check_name(name, at, Some(item.span.clone())) {
                self.findings.push(finding);
            } else if !seen.insert(name.clone()) {
                let what = format!(
                    "{name} stands here twice (the second time at character {})",
                    grammar::character_number(text, item.span.start)
                );
                let finding = Finding::error("doubled-container", at.clone(), what).span(item.span.clone());
                self.findings.push(finding.fix("name it once"));
            }
        }
        if self.findings.len() > before { Vec::new() } else { steps }
    }

    fn parse_mode(&mut self, text: &str, at: &Place) -> RequestedMode {
        let all = [RequestedMode::Auto, RequestedMode::PostStart, RequestedMode::Entrypoint]
            .map(|wish| (wish.as_str(), wish));
        self.parse_choice(text, at, &all)
    }

    /// One of several words; the first of them if it is none.
    fn parse_choice<T: Copy>(&mut self, text: &str, at: &Place, all: &[(&'static str, T)]) -> T {
        if let Some((_, value)) = all.iter().find(|(word, _)| *word == text.trim()) {
            return *value;
        }
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let fix = did_you_mean(text.trim(), words.iter().copied());
        let fix = fix.unwrap_or_else(|| format!("write one of {}", words.join(", ")));
        let what = format!("{} is none of {}", quoted(text), words.join(", "));
        self.findings.push(Finding::error("bad-value", at.clone(), what).fix(fix).span(0..text.len()));
        all[0].1
    }

    fn parse_timeout(&mut self, text: &str, at: &Place) -> Duration {
        let wrong = match humantime::parse_duration(text.trim()) {
            Ok(limit) if limit.is_zero() => "is over at once".to_owned(),
            Ok(limit) if limit > MAX_TIMEOUT => "is longer than a year".to_owned(),
            Ok(limit) => return limit,
            Err(error) => format!("is no time: {error}"),
        };
        let finding = Finding::error("bad-value", at.clone(), format!("{} {wrong}", quoted(text)));
        self.findings.push(finding.fix("write 90s, 5m or 1h 30m").span(0..text.len()));
        DEFAULT_TIMEOUT
    }
}

/// A value that is no text.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Number(_) => format!("the value {value}"),
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Whether both may hold at the same moment; if so, the one that says both.
#[must_use]
pub(crate) fn combine_states(a: WantedState, b: WantedState) -> Option<WantedState> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (WantedState::Started, other) | (other, WantedState::Started) => Some(other),
        (WantedState::Completed, WantedState::Exited) | (WantedState::Exited, WantedState::Completed) => {
            Some(WantedState::Completed)
        }
        _ => None,
    }
}

//! From annotations to what they declare.

use super::declared::{Declared, Edge, Publish, Sidecar, Stop, TIMEOUT, Wish};
use super::grammar::{self, Fault, Grammar, Item, quoted};
use super::keys::{self, annotation};
use super::nearest::{did_you_mean, nearest};
use super::spec::Spec;

use crate::core::argv::Argv;
use crate::core::until::Until;
use crate::core::{names, until::Want};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time limit: what an `int32` of failed probes, one a second, can count is more.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads the annotations of `template`, whose containers are `spec`; what is wrong with them goes to `findings`, and what is
/// right is in the result all the same.
#[must_use]
pub fn read(template: &Value, spec: &Spec<'_>, findings: &mut Vec<Finding>) -> Declared {
    let said = Declared { timeout: TIMEOUT, ..Declared::default() };
    let mut reader = Reader { spec, findings, said };
    reader.labels(template);
    for (key, value) in sorted(template, "annotations", reader.findings) {
        reader.annotation(key, value);
    }
    reader.said
}

/// The annotations or labels of a template by their keys; the same order whatever serde_json keeps.
fn sorted<'a>(template: &'a Value, field: &str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, &'a Value> {
    let place = Place::root().to("metadata").to(field);
    match place.of(template) {
        Some(Value::Object(fields)) => fields.iter().map(|(key, value)| (key.as_str(), value)).collect(),
        None | Some(Value::Null) => BTreeMap::new(),
        Some(_) => {
            let what = format!("{field} are no list of keys and values");
            findings.push(Finding::error("bad-value", place, what).mend(format!("write {field}: {{KEY: \"VALUE\"}}")));
            BTreeMap::new()
        }
    }
}

struct Reader<'a, 'f> {
    spec: &'a Spec<'a>,
    findings: &'f mut Vec<Finding>,
    said: Declared,
}

impl Reader<'_, '_> {
    fn labels(&mut self, template: &Value) {
        for (key, value) in sorted(template, "labels", self.findings) {
            let at = Place::root().to("metadata").to("labels").to(key);
            if key == keys::INJECT {
                if !matches!(value.as_str(), Some("enabled" | "disabled")) {
                    let what = format!("{} is not what the label {key} can be", shown(value));
                    let finding = Finding::error("bad-value", at, what);
                    self.findings.push(finding.mend("write \"enabled\" or \"disabled\", in quotes"));
                }
            } else if keys::WHOLE.contains(&key) || keys::PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
                let what = format!("{key} is an annotation, and says nothing as a label");
                self.findings.push(Finding::error("not-a-label", at, what).mend("move it to metadata.annotations"));
            }
        }
    }

    fn annotation(&mut self, key: &str, value: &Value) {
        let at = annotation(key);
        let Some((domain, name)) = key.split_once('/') else { return };
        let known = keys::WHOLE.contains(&key) || keys::PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        if !known {
            return self.stranger(key, domain, name, at);
        }
        let Some(text) = value.as_str() else {
            let what = format!("an annotation is text, and this is {}", shown(value));
            return self.findings.push(Finding::error("bad-value", at, what).mend("put it in quotes"));
        };
        if domain != keys::DOMAIN {
            if let Some(finding) = self.spec.refuse(name, &at, None) {
                let finding = Finding { what: format!("{key}: {}", finding.what), ..finding };
                return self.findings.push(finding);
            }
            let prefix = &key[..key.len() - name.len()];
            return self.of_one(prefix, name, text, at);
        }
        match key {
            keys::ORDER => self.order(text, &at),
            keys::MODE => self.said.mode = self.wish(text, &at),
            keys::TIMEOUT => self.said.timeout = self.duration(text, &at),
            keys::ON_TIMEOUT => {
                self.said.continue_on_timeout = self.choice(text, &at, &[("fail", false), ("continue", true)])
            }
            keys::FAIL_FAST => self.said.fail_fast = self.choice(text, &at, &[("false", false), ("true", true)]),
            keys::STOP_ORDER => self.said.stop = self.stop(text, &at),
            keys::SIDECARS => {
                self.said.sidecars = self.list(text, &at, grammar::SIDECARS).into_iter().flatten().collect();
            }
            keys::SIDECAR => {
                self.said.sidecar = self.choice(text, &at, &[("native", Sidecar::Native), ("first", Sidecar::First)]);
            }
            keys::PUBLISH => {
                self.said.publish = self.choice(text, &at, &[("api", Publish::Api), ("board", Publish::Board)]);
            }
            // Read by whoever wrote it.
            _ => {}
        }
    }

    /// A key that is none of ours, or not one that belongs into a template.
    fn stranger(&mut self, key: &str, domain: &str, name: &str, at: Place) {
        let is_written = [names::STATUS_PREFIX, names::SANDBOX_PREFIX, names::OVERRIDE_PREFIX];
        if is_written.iter().any(|prefix| key.starts_with(prefix)) {
            let what = format!("{key} says how a running Pod stands; one that comes with a manifest is never believed");
            return self.findings.push(Finding::warning("copied-state", at, what).mend("take it out"));
        }
        if key == keys::INJECT {
            let what = format!("{key} is a label, and says nothing as an annotation");
            return self
                .findings
                .push(Finding::error("not-an-annotation", at, what).mend("move it to metadata.labels"));
        }
        let is_ours = domain == keys::DOMAIN || domain.ends_with(".podgate.io");
        let prefixes = keys::PREFIXES.map(|prefix| prefix.trim_end_matches('/'));
        let domains = prefixes.into_iter().chain([keys::DOMAIN]);
        if is_ours {
            let meant = match domain {
                keys::DOMAIN => nearest(key, keys::WHOLE).map(str::to_owned),
                _ => nearest(domain, domains).map(|near| format!("{near}/{name}")),
            };
            // `podgate.io/after`, `podgate.io/command`: of one container, so its name is missing.
            let of_one =
                keys::PREFIXES.iter().find(|prefix| domain == keys::DOMAIN && prefix.split('.').next() == Some(name));
            let mend = match (of_one, meant) {
                (Some(prefix), _) => format!("write {prefix}CONTAINER"),
                (None, Some(meant)) => format!("did you mean {meant}?"),
                (None, None) => "docs/declaring.md has all of them".to_owned(),
            };
            let what = format!("podgate knows no annotation {}", quoted(key));
            return self.findings.push(Finding::error("unknown-annotation", at, what).mend(mend));
        }
        // Only names that can't be anybody else's by chance.
        if let Some(near) = nearest(domain, domains) {
            let what = format!("{} is not read: its domain is not podgate's", quoted(key));
            let finding = Finding::warning("unknown-annotation", at, what);
            self.findings.push(finding.mend(format!("did you mean {near}/{name}?")));
        }
    }

    /// An annotation that speaks of one container.
    fn of_one(&mut self, prefix: &str, name: &str, text: &str, at: Place) {
        match prefix {
            keys::AFTER_PREFIX => {
                for item in self.list(text, &at, grammar::AFTER).into_iter().flatten() {
                    let edge = Edge { waiter: name.to_owned(), needs: item.until, at: at.clone(), word: item.word };
                    self.said.edges.push(edge);
                }
            }
            keys::MODE_PREFIX => {
                let value = self.wish(text, &at);
                self.said.modes.insert(name.to_owned(), value);
            }
            keys::TIMEOUT_PREFIX => {
                let value = self.duration(text, &at);
                self.said.timeouts.insert(name.to_owned(), value);
            }
            _ => match text.parse::<Argv>() {
                Ok(argv) => {
                    self.said.commands.insert(name.to_owned(), argv.as_slice().to_vec());
                }
                Err(error) => {
                    let finding = Finding::error("bad-value", at, format!("{} is no command: {error}", quoted(text)));
                    self.findings.push(finding.mend("write [\"/usr/bin/program\", \"argument\"]"));
                }
            },
        }
    }

    fn order(&mut self, text: &str, at: &Place) {
        let steps = self.list(text, at, grammar::ORDER);
        for pair in steps.windows(2) {
            for waiter in &pair[1] {
                for item in &pair[0] {
                    let (needs, word) = (item.until.clone(), item.word.clone());
                    let waiter = waiter.until.container.clone();
                    self.said.edges.push(Edge { waiter, needs, at: at.clone(), word });
                }
            }
        }
        for item in steps.last().into_iter().flatten().filter(|item| item.is_stated) {
            let Until { container, want } = &item.until;
            let what = format!("nobody waits for {container} in this order, so ={} says nothing", want.as_str());
            let finding = Finding::note("state-unused", at.clone(), what).word(item.word.clone());
            self.findings.push(finding.mend(format!("write {container}")));
        }
    }

    fn stop(&mut self, text: &str, at: &Place) -> Stop {
        match text.trim() {
            "reverse" => Stop::Reverse,
            "none" => Stop::None,
            _ => Stop::Steps(self.list(text, at, grammar::STOP)),
        }
    }

    /// A list of containers, each of which the Pod has, and once; empty if anything is wrong with it.
    fn list(&mut self, text: &str, at: &Place, grammar: Grammar) -> Vec<Vec<Item>> {
        let before = self.findings.len();
        let (steps, faults) = grammar::read(text, grammar);
        for Fault { word, what, mend } in faults {
            self.findings.push(Finding::error("bad-order", at.clone(), what).mend(mend).word(word));
        }
        let mut seen = BTreeSet::new();
        for item in steps.iter().flatten() {
            let name = &item.until.container;
            if let Some(finding) = self.spec.refuse(name, at, Some(item.word.clone())) {
                self.findings.push(finding);
            } else if !seen.insert(name.clone()) {
                let what = format!(
                    "{name} stands here twice (the second time at character {})",
                    grammar::character(text, item.word.start)
                );
                let finding = Finding::error("doubled-container", at.clone(), what).word(item.word.clone());
                self.findings.push(finding.mend("name it once"));
            }
        }
        if self.findings.len() > before { Vec::new() } else { steps }
    }

    fn wish(&mut self, text: &str, at: &Place) -> Wish {
        let all = [Wish::Auto, Wish::PostStart, Wish::Entrypoint].map(|wish| (wish.as_str(), wish));
        self.choice(text, at, &all)
    }

    /// One of several words; the first of them if it is none.
    fn choice<T: Copy>(&mut self, text: &str, at: &Place, all: &[(&'static str, T)]) -> T {
        if let Some((_, value)) = all.iter().find(|(word, _)| *word == text.trim()) {
            return *value;
        }
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let mend = did_you_mean(text.trim(), words.iter().copied());
        let mend = mend.unwrap_or_else(|| format!("write one of {}", words.join(", ")));
        let what = format!("{} is none of {}", quoted(text), words.join(", "));
        self.findings.push(Finding::error("bad-value", at.clone(), what).mend(mend).word(0..text.len()));
        all[0].1
    }

    fn duration(&mut self, text: &str, at: &Place) -> Duration {
        let wrong = match humantime::parse_duration(text.trim()) {
            Ok(limit) if limit.is_zero() => "is over at once".to_owned(),
            Ok(limit) if limit > LONGEST => "is longer than a year".to_owned(),
            Ok(limit) => return limit,
            Err(error) => format!("is no time: {error}"),
        };
        let finding = Finding::error("bad-value", at.clone(), format!("{} {wrong}", quoted(text)));
        self.findings.push(finding.mend("write 90s, 5m or 1h 30m").word(0..text.len()));
        TIMEOUT
    }
}

/// A value that is no text.
fn shown(value: &Value) -> String {
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
pub(crate) fn both(a: Want, b: Want) -> Option<Want> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (Want::Started, other) | (other, Want::Started) => Some(other),
        (Want::Completed, Want::Exited) | (Want::Exited, Want::Completed) => Some(Want::Completed),
        _ => None,
    }
}

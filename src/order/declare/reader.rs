//! Reads annotations into a [`Declaration`].

use super::check_list::{self, Mounts};
use super::correct::parse_list;
use super::declaration::{Declaration, Edge, Publish, RequestedMode, SidecarPlacement, StopOrder};
use super::flow_cut;
use super::grammar::{self, Grammar, Item, SyntaxError, quoted};
use super::key_check::{accept_states_of_live_pod, check_key};
use super::keys::{self, annotation_place};
use super::nearest::did_you_mean;
use super::spec::{ContainerRef, Spec, string_list};
use crate::core::argv::{Argv, Check};
use crate::core::defaults;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use crate::order::limits::{FINDINGS_MAX, WAITS_MAX};
use crate::order::resources;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum time limit. A probe that runs each second needs an `int32` failureThreshold of as many seconds.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads the annotations of `template`; `spec` is the spec of that template. Adds problems to `findings`. The result
/// contains all valid settings.
pub fn read_annotations(template: &Value, spec: &Spec<'_>, findings: &mut Vec<Finding>) -> Declaration {
    let declaration = Declaration { timeout: defaults::TIMEOUT, ..Declaration::default() };
    let annotations = Place::root().to("metadata").to("annotations").of(template).and_then(Value::as_object);
    let lists = annotations.into_iter().flatten().filter(|(key, _)| keys::is_declaring(key));
    let items = lists.flat_map(|(_, list)| grammar::parse_steps(list.as_str().unwrap_or_default(), grammar::ORDER).0);
    let optional = items.flatten().filter(|item| item.is_optional).map(|item| item.until.container).collect();
    let host_paths = check_list::host_paths(spec);
    let mut reader = Reader { spec, findings, declaration, optional, waits: 0, host_paths };
    reader.read_labels(template);
    let cut = annotations.and_then(|annotations| flow_cut::find(annotations, spec));
    for (key, value) in sorted_entries(template, "annotations", reader.findings) {
        if reader.findings.len() > FINDINGS_MAX {
            break;
        }
        match &cut {
            Some((cut, finding)) if *cut == key => reader.findings.push(finding.clone()),
            _ => reader.read_annotation(key, value),
        }
    }
    let declaration = reader.declaration;
    accept_states_of_live_pod(template, findings);
    declaration
}

/// Returns the annotations or labels of a template, sorted by key: serde_json's map order depends on a crate feature.
fn sorted_entries<'a>(template: &'a Value, field: &str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, &'a Value> {
    let place = Place::root().to("metadata").to(field);
    match place.of(template) {
        Some(Value::Object(fields)) => fields.iter().map(|(key, value)| (key.as_str(), value)).collect(),
        None | Some(Value::Null) => BTreeMap::new(),
        Some(_) => {
            let what = format!("metadata.{field} must be a map of keys to strings");
            findings.push(Finding::error("bad-value", place, what).fix(format!("write {field}: {{KEY: \"VALUE\"}}")));
            BTreeMap::new()
        }
    }
}

struct Reader<'a, 'f> {
    spec: &'a Spec<'a>,
    findings: &'f mut Vec<Finding>,
    declaration: Declaration,
    /// Containers that a list names with `?`.
    optional: BTreeSet<String>,
    /// Number of waits for containers and checks in all lists so far.
    waits: usize,
    /// Names of the volumes that are a path on the node.
    host_paths: BTreeSet<&'a str>,
}

impl Reader<'_, '_> {
    fn read_labels(&mut self, template: &Value) {
        for (key, value) in sorted_entries(template, "labels", self.findings) {
            if self.findings.len() > FINDINGS_MAX {
                break;
            }
            let at = Place::root().to("metadata").to("labels").to(key);
            if key == keys::INJECT && !matches!(value.as_str(), Some("enabled" | "disabled")) {
                let what = format!("{key} must be \"enabled\" or \"disabled\", not {}", describe_value(value));
                let finding = Finding::error("bad-value", at, what);
                self.findings.push(finding.fix("write \"enabled\" or \"disabled\", in quotes"));
            } else {
                self.findings.extend(check_key(key, "labels", at));
            }
        }
    }

    fn read_annotation(&mut self, key: &str, value: &Value) {
        let at = annotation_place(key);
        let Some((domain, name)) = key.split_once('/').filter(|_| keys::is_annotation(key)) else {
            return self.findings.extend(check_key(key, "annotations", at));
        };
        // In YAML, a key without a value is null. Parse null as an empty text, so that podgate reports an empty list.
        let text = value.as_str().or((value.is_null() && keys::is_declaring(key)).then_some(""));
        let Some(text) = text else {
            let what = format!("{key} must be a string, not {}", describe_value(value));
            let fix = match string_list(Some(value)) {
                Some(items) if keys::is_declaring(key) => {
                    let list = items.join(", ");
                    let quote = if list.contains('"') { '\'' } else { '"' };
                    format!("write one string: {quote}{list}{quote}")
                }
                _ if value.is_null() => "write a value, or remove the annotation".to_owned(),
                _ => "put the value in quotes".to_owned(),
            };
            return self.findings.push(Finding::error("bad-value", at, what).fix(fix));
        };
        if domain != keys::DOMAIN {
            let prefix = &key[..key.len() - name.len()];
            let may_be_init = prefix == keys::AFTER_PREFIX && self.spec.has(name);
            if name.is_empty() {
                let finding = Finding::error("unknown-key", at, format!("{key} has no container name"));
                return self.findings.push(finding.fix(format!("write {key}CONTAINER")));
            }
            if let Some(finding) = self.spec.check_name(name, &at, None).filter(|_| !may_be_init) {
                if finding.rule == "unknown-container" && self.optional.contains(name) {
                    // The list has the note.
                    return;
                }
                if prefix != keys::READY_PREFIX && self.optional.contains(name) && self.spec.init(name).is_some() {
                    let what =
                        format!("{name} is an init container or native sidecar, so this annotation has no effect");
                    return self.findings.push(Finding::note("unused-annotation", at, what));
                }
                if prefix == keys::READY_PREFIX && self.spec.init(name).is_some_and(ContainerRef::is_native) {
                    let what = format!("{key}: podgate uses the probes of native sidecars");
                    let fix = format!("set a startupProbe or readinessProbe on {name}");
                    return self.findings.push(Finding::error("init-container", at, what).fix(fix));
                }
                let finding = Finding { message: format!("{key}: {}", finding.message), ..finding };
                return self.findings.push(finding);
            }
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
            keys::ON_PROVIDER_RESTART => {
                self.declaration.restart_with_provider =
                    self.parse_choice(text, &at, &[("ignore", false), ("restart", true)])
            }
            keys::STOP_ORDER => self.declaration.stop_order = self.parse_stop_order(text, &at),
            keys::JOB_SIDECARS => {
                self.declaration.sidecars =
                    self.parse_list(text, &at, grammar::SIDECARS).into_iter().flatten().collect();
            }
            keys::SIDECAR_POSITION => {
                self.declaration.sidecar_placement = self.parse_choice(
                    text,
                    &at,
                    &[("native", SidecarPlacement::Native), ("first", SidecarPlacement::First)],
                );
            }
            keys::SIDECAR_RESOURCES => match resources::parse(text) {
                Ok(parsed) => self.declaration.sidecar_resources = Some(parsed),
                Err(why) => {
                    let finding = Finding::error("bad-value", at, why).span(0..text.len());
                    self.findings.push(finding.fix(format!("write settings such as {}", resources::DEFAULT)));
                }
            },
            keys::PUBLISH => {
                self.declaration.publish =
                    self.parse_choice(text, &at, &[("api", Publish::Api), ("board", Publish::Board)]);
            }
            // Only `inject` and `uninject` read `podgate.io/injected`.
            _ => {}
        }
    }

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
            keys::IMAGE_PREFIX => {
                self.declaration.images.insert(name.to_owned(), text.trim().to_owned());
            }
            keys::ON_PROVIDER_RESTART_PREFIX => {
                let value = self.parse_choice(text, &at, &[("ignore", false), ("restart", true)]);
                self.declaration.restarts_with_provider.insert(name.to_owned(), value);
            }
            keys::CHECK_PREFIX => {
                let checks = self.parse_checks(text, name, &at);
                self.waits += checks.len();
                self.check_waits(&at);
                self.declaration.checks.insert(name.to_owned(), checks);
            }
            keys::READY_PREFIX => {
                let mut checks = self.parse_checks(text, name, &at);
                self.findings
                    .extend(check_list::ready_problem(&checks, &at).map(|finding| finding.span(0..text.len())));
                self.declaration.ready.extend(checks.pop().map(|check| (name.to_owned(), check)));
            }
            _ => match text.parse::<Argv>() {
                Ok(argv) => {
                    self.declaration.commands.insert(name.to_owned(), argv.as_slice().to_vec());
                }
                Err(error) => {
                    let finding =
                        Finding::error("bad-value", at, format!("{} is not a command: {error}", quoted(text)));
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
            let what = format!("no container waits for {container} in this order, so ={} has no effect", want.as_str());
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

    /// Parses a list of containers. Each container must exist in the Pod, unless its name ends in `?`, and occur once.
    /// Omits containers that do not exist. Returns an empty list on any error.
    fn parse_list(&mut self, text: &str, at: &Place, grammar: Grammar) -> Vec<Vec<Item>> {
        let before = self.findings.len();
        let (mut steps, errors) = parse_list(text, grammar);
        for SyntaxError { span: word, message, fix } in errors {
            let fix = fix.unwrap_or_else(|| self.example_fix(text, at));
            self.findings.push(Finding::error("bad-order", at.clone(), message).fix(fix).span(word));
        }
        let (mut seen, mut absent) = (BTreeSet::new(), BTreeSet::new());
        for item in steps.iter().flatten() {
            if self.findings.len() > FINDINGS_MAX {
                break;
            }
            let name = &item.until.container;
            let unknown = self.spec.check_name(name, at, Some(item.span.clone())).filter(|_| !self.spec.has(name));
            if !seen.insert(name.clone()) {
                let what = format!(
                    "container {name} is listed twice (again at character {})",
                    grammar::character_number(text, item.span.start)
                );
                let finding = Finding::error("doubled-container", at.clone(), what).span(item.span.clone());
                self.findings.push(finding.fix("list it once"));
            } else if let Some(finding) = unknown {
                if !item.is_optional || finding.rule != "unknown-container" {
                    self.findings.push(finding);
                    continue;
                }
                let what =
                    format!("there is no container {name}, so podgate ignores this item unless a webhook adds {name}");
                let note = Finding::note("absent-container", at.clone(), what).span(item.span.clone());
                let suggestion = Some(finding.fix).filter(|fix| fix.starts_with("did you mean")).unwrap_or_default();
                self.findings.push(note.fix(suggestion));
                absent.insert(name.clone());
            }
        }
        steps.iter_mut().for_each(|step| step.retain(|item| !absent.contains(&item.until.container)));
        steps.retain(|step| !step.is_empty());
        let count: usize = steps.iter().map(Vec::len).sum();
        self.waits += match grammar {
            grammar::AFTER => count,
            // Each sidecar waits for all other containers.
            grammar::SIDECARS => count * self.spec.containers.len().saturating_sub(count),
            _ => steps.windows(2).map(|pair| pair[0].len() * pair[1].len()).sum(),
        };
        self.check_waits(at);
        if has_errors(&self.findings[before..]) { Vec::new() } else { steps }
    }

    fn check_waits(&mut self, at: &Place) {
        if self.waits > WAITS_MAX {
            let what = format!("the order has more than {WAITS_MAX} waits for containers and checks");
            let finding = Finding::error("template-too-large", at.clone(), what);
            self.findings.push(finding.fix("name only direct predecessors"));
        }
    }

    /// Parses the list of checks in an annotation of the container `name`. Returns an empty list on any error.
    fn parse_checks(&mut self, text: &str, name: &str, at: &Place) -> Vec<Check> {
        let mounts = Mounts::of(self.spec.get(name), &self.host_paths);
        let checks = check_list::parse(text, |path| mounts.volume_at(path));
        checks.unwrap_or_else(|SyntaxError { span, message, fix }| {
            let is_ready = *at == keys::container_annotation_place(keys::READY_PREFIX, name);
            let fix = fix.unwrap_or_else(|| check_list::example(is_ready).to_owned());
            self.findings.push(Finding::error("bad-value", at.clone(), message).span(span).fix(fix));
            Vec::new()
        })
    }

    /// Returns the fix for a list that podgate cannot correct: an example with the names of the Pod's containers.
    fn example_fix(&self, text: &str, at: &Place) -> String {
        let is_waiter = |name: &str| *at == keys::container_annotation_place(keys::AFTER_PREFIX, name);
        let names = self.spec.containers.iter().map(|own| own.name).filter(|name| !is_waiter(name));
        let names: Vec<&str> = names.take(3).collect();
        let or = if text.trim().is_empty() { ", or remove the annotation" } else { "" };
        format!("write a list such as {}{or}", names.join(", "))
    }

    fn parse_mode(&mut self, text: &str, at: &Place) -> RequestedMode {
        let all = [RequestedMode::Auto, RequestedMode::Entrypoint, RequestedMode::Hold, RequestedMode::PostStart]
            .map(|mode| (mode.as_str(), mode));
        self.parse_choice(text, at, &all)
    }

    /// Returns the value of the word in `all` that equals `text`. If no word equals `text`, reports an error and
    /// returns the first value in `all`, so that the reader can continue.
    fn parse_choice<T: Copy>(&mut self, text: &str, at: &Place, all: &[(&'static str, T)]) -> T {
        if let Some((_, value)) = all.iter().find(|(word, _)| *word == text.trim()) {
            return *value;
        }
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let fix = did_you_mean(text.trim(), words.iter().copied());
        let fix = fix.unwrap_or_else(|| format!("write one of {}", words.join(", ")));
        let what = format!("{} is not one of {}", quoted(text), words.join(", "));
        self.findings.push(Finding::error("bad-value", at.clone(), what).fix(fix).span(0..text.len()));
        all[0].1
    }

    fn parse_timeout(&mut self, text: &str, at: &Place) -> Duration {
        let wrong = match humantime::parse_duration(text.trim()) {
            Ok(limit) if limit.is_zero() => "is not longer than zero".to_owned(),
            Ok(limit) if limit > MAX_TIMEOUT => "is longer than a year".to_owned(),
            Ok(limit) => return limit,
            Err(error) => format!("is not a duration: {error}"),
        };
        let finding = Finding::error("bad-value", at.clone(), format!("{} {wrong}", quoted(text)));
        self.findings.push(finding.fix("write a duration such as 90s, 5m or 1h 30m").span(0..text.len()));
        defaults::TIMEOUT
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Number(_) | Value::Null => value.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Returns the state that implies both `a` and `b`; `None` if both cannot hold at the same time.
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

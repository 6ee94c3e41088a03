//! Parses the values of annotations. Reports each invalid value, and then returns a default.

use super::check_list::{self, Mounts};
use super::declaration::StopOrder;
use super::grammar::{self, ContainerItem, Grammar, OTHERS, SyntaxError, parse_list, quoted};
use super::keys;
use super::limits::{KEY_FINDINGS_MAX, POD_WAITS_MAX};
use super::nearest::did_you_mean;
use super::ready::ReadyCheck;
use super::spec::Spec;
use crate::core::argv::{Argv, Check};
use crate::core::defaults;
use crate::core::quit;
use crate::core::until::WaitCondition;
use crate::core::words::UnknownWord;
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use crate::order::resources;
use crate::order::sidecar_settings::{self, SidecarSettings};
use serde_json::Value;
use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

/// Maximum time limit. A probe that waits needs a `timeoutSeconds` of this length, which must fit into an `int32`.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Parser of the values in one template's annotations.
pub(super) struct ValueParser<'a, 'f> {
    pub(super) spec: &'a Spec<'a>,
    pub(super) findings: &'f mut Vec<Finding>,
    /// Number of waits for containers and checks in all lists so far.
    waits: usize,
    /// Names of the hostPath volumes, which contain files of the node.
    host_path_volumes: BTreeSet<&'a str>,
}

impl<'a, 'f> ValueParser<'a, 'f> {
    pub(super) fn new(spec: &'a Spec<'a>, findings: &'f mut Vec<Finding>) -> Self {
        ValueParser { spec, findings, waits: 0, host_path_volumes: check_list::host_path_volumes(spec) }
    }

    /// Reports that the value `text` of the annotation at `at` is not valid.
    fn reject(&mut self, text: &str, at: &Place, what: String, fix: impl Into<String>) {
        self.findings.push(Finding::error("bad-value", at.clone(), what).fix(fix).span(0..text.len()));
    }

    pub(super) fn stop_order(&mut self, text: &str, at: &Place) -> StopOrder {
        match text.trim() {
            "reverse" => StopOrder::Reverse,
            "none" => StopOrder::None,
            _ => StopOrder::Steps(self.list(text, at, grammar::STOP)),
        }
    }

    /// Parses a list of containers. Each container must occur only once, and must exist in the Pod unless its name ends
    /// in `?`. Omits containers that do not exist, and puts the Pod's other containers in place of `*`. Returns an
    /// empty list on any error.
    pub(super) fn list(&mut self, text: &str, at: &Place, grammar: Grammar) -> Vec<Vec<ContainerItem>> {
        let before = self.findings.len();
        let (mut steps, errors) = parse_list(text, grammar);
        for SyntaxError { span: word, message, fix } in errors {
            let fix = fix.unwrap_or_else(|| self.example_fix(text, at));
            self.findings.push(Finding::error("bad-order", at.clone(), message).fix(fix).span(word));
        }
        let (mut seen, mut absent) = (BTreeSet::new(), BTreeSet::new());
        for item in steps.iter().flatten() {
            if self.findings.len() > KEY_FINDINGS_MAX {
                break;
            }
            let name = &item.until.container;
            let unknown = self.spec.check_regular_name(name, at, Some(item.span.clone()));
            let unknown = unknown.filter(|_| name != OTHERS && !self.spec.has(name));
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
        // The Pod's other containers take the place of `*`.
        let others = || self.spec.containers.iter().map(|own| own.name).filter(|name| !seen.contains(*name));
        for step in &mut steps {
            if let Some(index) = step.iter().position(|item| item.until.container == OTHERS) {
                let ContainerItem { until: WaitCondition { want, .. }, span, .. } = step.remove(index);
                step.extend(others().map(|name| ContainerItem {
                    until: WaitCondition { container: name.to_owned(), want },
                    is_optional: false,
                    span: span.clone(),
                }));
            }
            step.retain(|item| !absent.contains(&item.until.container));
        }
        steps.retain(|step| !step.is_empty());
        let count: usize = steps.iter().map(Vec::len).sum();
        self.waits += match grammar {
            grammar::AFTER => count,
            // Each sidecar in the list waits for all containers that are not in the list.
            grammar::JOB_SIDECARS => count * self.spec.containers.len().saturating_sub(count),
            _ => (0..steps.len()).map(|at| grammar::awaited(&steps[..at]).count() * steps[at].len()).sum(),
        };
        self.check_waits(at);
        if has_errors(&self.findings[before..]) { Vec::new() } else { steps }
    }

    fn check_waits(&mut self, at: &Place) {
        if self.waits > POD_WAITS_MAX {
            let what = format!("the order has more than {POD_WAITS_MAX} waits for containers and checks");
            let finding = Finding::error("template-too-large", at.clone(), what);
            self.findings.push(finding.fix("name only direct predecessors"));
        }
    }

    /// Parses the checks that the container `name` waits for.
    pub(super) fn checks(&mut self, text: &str, name: &str, at: &Place) -> Vec<Check> {
        let checks = self.parse_checks(text, name, at);
        self.waits += checks.len();
        self.check_waits(at);
        checks
    }

    /// Parses the check that replaces the probes of the container `name`.
    pub(super) fn ready_check(&mut self, text: &str, name: &str, at: &Place) -> Option<ReadyCheck> {
        if let Some(request) = ReadyCheck::parse_sidecar_request(text) {
            let fix = "write https://localhost:8443/health, http://localhost:8080/health, Host: shop.example or grpc://localhost:9090/SERVICE";
            return request.map_err(|why| self.reject(text, at, why, fix)).ok();
        }
        let mut checks = self.parse_checks(text, name, at);
        self.findings.extend(check_list::ready_problem(&checks, at).map(|finding| finding.span(0..text.len())));
        checks.pop().map(ReadyCheck::from)
    }

    /// Parses the list of checks in an annotation of the container `name`. Returns an empty list on any error.
    fn parse_checks(&mut self, text: &str, name: &str, at: &Place) -> Vec<Check> {
        let mounts = Mounts::of(self.spec.regular(name), &self.host_path_volumes);
        check_list::parse(text, &mounts).unwrap_or_else(|SyntaxError { span, message, fix }| {
            let is_ready = *at == keys::container_annotation_place(keys::READY_PREFIX, name);
            let fix = fix.unwrap_or_else(|| check_list::general_fix(is_ready).to_owned());
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

    /// Parses a value of an enum. Reports an invalid value, and then returns the default.
    pub(super) fn word<T: FromStr<Err = UnknownWord> + Default>(&mut self, text: &str, at: &Place) -> T {
        text.trim().parse().unwrap_or_else(|UnknownWord(words)| {
            self.reject_word(text, at, words);
            T::default()
        })
    }

    /// Returns true for the word `yes`, and false for the word `no`. Reports any other word.
    pub(super) fn flag(&mut self, text: &str, at: &Place, [no, yes]: [&'static str; 2]) -> bool {
        if !matches!(text.trim(), word if word == no || word == yes) {
            self.reject_word(text, at, &[no, yes]);
        }
        text.trim() == yes
    }

    fn reject_word(&mut self, text: &str, at: &Place, words: &[&'static str]) {
        let fix = did_you_mean(text.trim(), words.iter().copied());
        let fix = fix.unwrap_or_else(|| format!("write one of {}", words.join(", ")));
        self.reject(text, at, format!("{} is not one of {}", quoted(text), words.join(", ")), fix);
    }

    pub(super) fn timeout(&mut self, text: &str, at: &Place) -> Duration {
        let wrong = match humantime::parse_duration(text.trim()) {
            Ok(limit) if limit.is_zero() => "is not longer than zero".to_owned(),
            Ok(limit) if limit > MAX_TIMEOUT => "is longer than a year".to_owned(),
            Ok(limit) => return limit,
            Err(_) => "is not a duration".to_owned(),
        };
        let fix = match text.trim().parse::<u32>() {
            Ok(seconds) if seconds > 0 => format!("write {seconds}s"),
            _ => "write a duration such as 90s, 5m or 1h 30m".to_owned(),
        };
        self.reject(text, at, format!("{} {wrong}", quoted(text)), fix);
        defaults::WAIT_TIMEOUT
    }

    pub(super) fn command(&mut self, text: &str, at: &Place) -> Option<Vec<String>> {
        match text.parse::<Argv>() {
            Ok(argv) => Some(argv.as_slice().to_vec()),
            Err(error) => {
                let what = format!("{} is not a command: {error}", quoted(text));
                let fix = "write [\"/usr/bin/program\", \"argument\"]";
                self.findings.push(Finding::error("bad-value", at.clone(), what).fix(fix));
                None
            }
        }
    }

    pub(super) fn quit(&mut self, text: &str, at: &Place) -> Option<String> {
        let fix = "write a request such as POST http://127.0.0.1:15020/quitquitquit";
        let request = quit::parse(text).map(|(method, url)| format!("{method} {url}"));
        request.map_err(|why| self.reject(text, at, why, fix)).ok()
    }

    pub(super) fn sidecar_settings(&mut self, text: &str, at: &Place) -> SidecarSettings {
        let settings = sidecar_settings::parse(text).unwrap_or_else(|why| {
            self.reject(text, at, why, "write settings such as log=debug, metrics=9090");
            SidecarSettings::default()
        });
        if let Some(own) = settings.metrics_port().and_then(|port| self.spec.container_declaring(port)) {
            self.reject(text, at, format!("container {} uses the port of metrics too", own.name), "use another port");
        }
        settings
    }

    pub(super) fn sidecar_resources(&mut self, text: &str, at: &Place) -> Option<Value> {
        let fix = || format!("write settings such as {}", resources::DEFAULT);
        resources::parse(text).map_err(|why| self.reject(text, at, why, fix())).ok()
    }
}

//! Reads annotations into a [`Declaration`]. Checks templates that declare no order.

use super::declaration::{Declaration, Edge};
use super::flow_cut;
use super::grammar::{self, ContainerItem, quoted};
use super::key_check::{check_key, describes_one_pod, is_or_resembles_podgate_key};
use super::keys::{self, annotation_place, is_declared};
use super::limits::{self, KEY_FINDINGS_MAX};
use super::spec::{ContainerRef, Spec, string_list};
use super::values::ValueParser;
use crate::core::defaults;
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Values of `on-timeout`. In this list and the next two lists, the first value means false.
const ON_TIMEOUT: [&str; 2] = ["fail", "continue"];
const FAIL_FAST: [&str; 2] = ["false", "true"];
const RESTARTS: [&str; 2] = ["ignore", "restart"];

/// Reads the annotations of `template`; `spec` is the spec of that template. Adds problems to `findings`. The result
/// contains all valid settings.
pub fn read_annotations(template: &Value, spec: &Spec<'_>, findings: &mut Vec<Finding>) -> Declaration {
    let mut declaration = Declaration::default();
    declaration.timeout.pod = defaults::WAIT_TIMEOUT;
    let annotations = Place::metadata("annotations").of(template).and_then(Value::as_object);
    let lists = annotations.into_iter().flatten().filter(|(key, _)| keys::declares_order(key));
    let items = lists.flat_map(|(_, list)| grammar::parse_steps(list.as_str().unwrap_or_default(), grammar::ORDER).0);
    let optional = items.flatten().filter(|item| item.is_optional).map(|item| item.until.container).collect();
    let mut reader = Reader { values: ValueParser::new(spec, findings), declaration, optional };
    reader.read_labels(template);
    let cut = annotations.and_then(|annotations| flow_cut::find_cut(annotations, spec));
    for (key, value) in sorted_entries(template, "annotations", reader.values.findings) {
        if reader.values.findings.len() > KEY_FINDINGS_MAX {
            break;
        }
        match &cut {
            Some((cut, finding)) if *cut == key => reader.values.findings.push(finding.clone()),
            _ if template["metadata"]["uid"].is_string() && describes_one_pod(key) => {} // of this running Pod
            _ => reader.read_annotation(key, value),
        }
    }
    reader.declaration
}

/// Returns the annotations or labels of a template, sorted by key: serde_json's map order depends on a crate feature.
fn sorted_entries<'a>(template: &'a Value, field: &str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, &'a Value> {
    let place = Place::metadata(field);
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
    values: ValueParser<'a, 'f>,
    declaration: Declaration,
    /// Containers that a list names with `?`.
    optional: BTreeSet<String>,
}

impl Reader<'_, '_> {
    fn read_labels(&mut self, template: &Value) {
        for (key, value) in sorted_entries(template, "labels", self.values.findings) {
            if self.values.findings.len() > KEY_FINDINGS_MAX {
                break;
            }
            let at = Place::metadata("labels").to(key);
            if key == keys::INJECT_LABEL && !matches!(value.as_str(), Some("enabled" | "disabled")) {
                let what = format!("{key} must be \"enabled\" or \"disabled\", not {}", describe_value(value));
                let finding = Finding::error("bad-value", at, what);
                self.values.findings.push(finding.fix("write \"enabled\" or \"disabled\", in quotes"));
            } else {
                self.values.findings.extend(check_key(key, "labels", at));
            }
        }
    }

    fn read_annotation(&mut self, key: &str, value: &Value) {
        let at = annotation_place(key);
        let Some((domain, name)) = key.split_once('/').filter(|_| keys::is_manifest_annotation(key)) else {
            return self.values.findings.extend(check_key(key, "annotations", at));
        };
        // In YAML, a key without a value is null. Parse null as an empty text, so that podgate reports an empty list.
        let text = value.as_str().or((value.is_null() && keys::declares_order(key)).then_some(""));
        let Some(text) = text else {
            let what = format!("{key} must be a string, not {}", describe_value(value));
            let fix = match string_list(Some(value)) {
                Some(items) if keys::declares_order(key) => {
                    let list = items.join(", ");
                    let quote = if list.contains('"') { '\'' } else { '"' };
                    format!("write one string: {quote}{list}{quote}")
                }
                _ if value.is_null() => "write a value, or remove the annotation".to_owned(),
                _ if value.is_u64() && (key == keys::TIMEOUT || key.starts_with(keys::TIMEOUT_PREFIX)) => {
                    format!("write \"{value}s\"")
                }
                _ => "put the value in quotes".to_owned(),
            };
            return self.values.findings.push(Finding::error("bad-value", at, what).fix(fix));
        };
        if domain != keys::DOMAIN {
            let prefix = &key[..key.len() - name.len()];
            let may_be_init = prefix == keys::AFTER_PREFIX && self.values.spec.has(name);
            if name.is_empty() {
                let finding = Finding::error("unknown-key", at, format!("{key} has no container name"));
                return self.values.findings.push(finding.fix(format!("write {key}CONTAINER")));
            }
            if let Some(finding) = self.values.spec.check_regular_name(name, &at, None).filter(|_| !may_be_init) {
                if finding.rule == "unknown-container" && self.optional.contains(name) {
                    // The reader has already added a note about the list that names this container with `?`.
                    return;
                }
                if prefix != keys::READY_PREFIX
                    && self.optional.contains(name)
                    && self.values.spec.init_or_native(name).is_some()
                {
                    let what =
                        format!("{name} is an init container or native sidecar, so this annotation has no effect");
                    return self.values.findings.push(Finding::note("unused-annotation", at, what));
                }
                if prefix == keys::READY_PREFIX
                    && self.values.spec.init_or_native(name).is_some_and(ContainerRef::is_native)
                {
                    let what = format!("{key}: podgate uses the probes of native sidecars, not ready checks");
                    let fix = format!("set a startupProbe or readinessProbe on {name}");
                    return self.values.findings.push(Finding::error("init-container", at, what).fix(fix));
                }
                let finding = Finding { message: format!("{key}: {}", finding.message), ..finding };
                return self.values.findings.push(finding);
            }
            self.declaration.settings.extend((!keys::declares_order(key)).then(|| key.to_owned()));
            return self.read_container_annotation(prefix, name, text, at);
        }
        let Reader { values, declaration, .. } = self;
        match key {
            keys::ORDER => self.read_order(text, &at),
            keys::MODE => declaration.mode.pod = values.word(text, &at),
            keys::TIMEOUT => declaration.timeout.pod = values.timeout(text, &at),
            keys::ON_TIMEOUT => declaration.continue_on_timeout.pod = values.flag(text, &at, ON_TIMEOUT),
            keys::FAIL_FAST => declaration.fail_fast.pod = values.flag(text, &at, FAIL_FAST),
            keys::ON_DEPENDENCY_RESTART => declaration.restart_with_dependency.pod = values.flag(text, &at, RESTARTS),
            keys::STOP_ORDER => declaration.stop_order = values.stop_order(text, &at),
            keys::JOB_SIDECARS => declaration.job_sidecars = values.list(text, &at, grammar::JOB_SIDECARS).concat(),
            keys::SIDECAR_RESOURCES => declaration.sidecar_resources = values.sidecar_resources(text, &at),
            keys::SIDECAR_SETTINGS => declaration.sidecar_settings = values.sidecar_settings(text, &at),
            keys::SIDECAR => declaration.sidecar = Some(values.word(text, &at)),
            keys::PUBLISH_TARGET => declaration.publish = Some(values.word(text, &at)),
            // Only `inject` and `uninject` read `podgate.io/injected`.
            _ => {}
        }
    }

    fn read_container_annotation(&mut self, prefix: &str, name: &str, text: &str, at: Place) {
        let Reader { values, declaration, .. } = self;
        let own = name.to_owned();
        match prefix {
            keys::AFTER_PREFIX => {
                for ContainerItem { until, span, .. } in values.list(text, &at, grammar::AFTER).concat() {
                    let (waiter, at) = (own.clone(), at.clone());
                    declaration.edges.push(Edge { waiter, until, at, span, is_direct: true });
                }
            }
            keys::MODE_PREFIX => _ = declaration.mode.own.insert(own, values.word(text, &at)),
            keys::TIMEOUT_PREFIX => _ = declaration.timeout.own.insert(own, values.timeout(text, &at)),
            keys::ON_TIMEOUT_PREFIX => {
                _ = declaration.continue_on_timeout.own.insert(own, values.flag(text, &at, ON_TIMEOUT));
            }
            keys::FAIL_FAST_PREFIX => _ = declaration.fail_fast.own.insert(own, values.flag(text, &at, FAIL_FAST)),
            keys::ON_DEPENDENCY_RESTART_PREFIX => {
                _ = declaration.restart_with_dependency.own.insert(own, values.flag(text, &at, RESTARTS));
            }
            keys::CHECK_PREFIX => _ = declaration.checks.insert(own, values.checks(text, name, &at)),
            keys::QUIT_PREFIX => declaration.quits.extend(values.quit(text, &at).map(|quit| (own, quit))),
            keys::READY_PREFIX => {
                declaration.ready.extend(values.ready_check(text, name, &at).map(|check| (own, check)))
            }
            _ => declaration.commands.extend(values.command(text, &at).map(|command| (own, command))),
        }
    }

    fn read_order(&mut self, text: &str, at: &Place) {
        let steps = self.values.list(text, at, grammar::ORDER);
        for (number, step) in steps.iter().enumerate() {
            for (waiter, (item, is_direct)) in
                step.iter().flat_map(|one| grammar::awaited(&steps[..number]).map(move |item| (one, item)))
            {
                let (waiter, until) = (waiter.until.container.clone(), item.until.clone());
                self.declaration.edges.push(Edge { waiter, until, at: at.clone(), span: item.span.clone(), is_direct });
            }
        }
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

/// Checks the keys and settings of a template that declares no order.
pub fn check_undeclared(template: &Value) -> Vec<Finding> {
    let maps = ["annotations", "labels"].map(Place::metadata);
    let mut keys = maps.iter().filter_map(|at| at.of(template)?.as_object()).flat_map(serde_json::Map::keys);
    let mut findings = Vec::new();
    if keys.any(|key| is_or_resembles_podgate_key(key)) {
        if let Err(finding) = limits::check(template, false) {
            return finding.into();
        }
        let spec = Spec::read(template, &mut Vec::new());
        let _ = read_annotations(template, &spec, &mut findings);
        if !has_errors(&findings) {
            findings.extend(settings_without_order(template));
        }
    }
    findings
}

/// Returns a warning if the template has podgate's label or settings, but declares no order.
pub(crate) fn settings_without_order(template: &Value) -> Option<Finding> {
    if is_declared(template) {
        return None;
    }
    let (metadata, fix) = (Place::root().to("metadata"), "add the annotation podgate.io/order, or remove");
    let label = metadata.to("labels").to(keys::INJECT_LABEL);
    if label.of(template).and_then(Value::as_str) == Some("enabled") {
        let what = "the label podgate.io/inject has no effect, because the template declares no order";
        return Some(Finding::warning("nothing-declared", label, what).fix(format!("{fix} the label")));
    }
    let annotations = metadata.to("annotations").of(template)?.as_object()?;
    let key =
        annotations.keys().filter(|key| keys::is_manifest_annotation(key) && *key != keys::INJECTION_RECORD).min()?;
    let what = format!("{key} has no effect, because the template declares no order");
    Some(Finding::warning("nothing-declared", annotation_place(key), what).fix(format!("{fix} {key}")))
}

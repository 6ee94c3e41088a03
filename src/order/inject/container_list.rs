//! The value of `PODGATE_CONTAINERS`, the sidecar's list of the Pod's containers.

use crate::core::container::{Container, Mode, Port, PortRef, Probe};
use crate::core::container_list::parse_list;
use crate::order::dollars;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, CONTAINERS_VARIABLE, without_nulls};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Maximum length of an environment variable's value, in bytes. Linux allows 128 KiB for name and value together.
pub(super) const VARIABLE_SIZE_MAX: usize = (128 << 10) - 32;

/// Reads the fields that the sidecar needs from a container's spec: name, named ports, probes, restart policy, rules.
pub(super) fn read_container(container: &Value, at: &Place, policy: Option<&str>) -> Result<Container, Vec<Finding>> {
    let name = parts::item_name(container).unwrap_or_default();
    let mut findings = Vec::new();
    let mut probe = |field: &str| -> Option<Probe> {
        let probe = container.get(field).map_or(Value::Null, without_nulls);
        let read = serde_json::from_value(probe.clone()).ok().filter(|_| unknown_field(&probe).is_none());
        read.unwrap_or_else(|| {
            let (problem, fix) = probe_problem(&probe);
            let what = format!("the {field} of {name} {problem}");
            findings.push(Finding::error("probe-unreadable", at.to(field), what).fix(fix));
            None
        })
    };
    let (startup_probe, readiness_probe) = (probe("startupProbe"), probe("readinessProbe"));
    if !findings.is_empty() {
        return Err(findings);
    }
    let ports = container["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| serde_json::from_value::<Port>(without_nulls(port)).ok());
    let policy = container["restartPolicy"].as_str().or(policy).unwrap_or("Always");
    let rules = without_nulls(&container["restartPolicyRules"]);
    let rules = if rules.is_null() { Some(Vec::new()) } else { serde_json::from_value(rules).ok() };
    Ok(Container {
        name: name.to_owned(),
        ports: ports.filter(|port| port.name.is_some()).collect(),
        startup_probe,
        readiness_probe,
        restart_policy: rules.is_some().then(|| policy.to_owned()),
        restart_policy_rules: rules.unwrap_or_default(),
        ..Container::default()
    })
}

/// Fields of a probe in the Pod API of Kubernetes 1.37, by their place in the probe.
const FIELDS: [(&str, &str); 5] = [
    (
        "",
        "exec httpGet tcpSocket grpc initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold \
         terminationGracePeriodSeconds",
    ),
    ("/exec", "command"),
    ("/httpGet", "path port host scheme httpHeaders protocol"),
    ("/tcpSocket", "port host"),
    ("/grpc", "port service mode"),
];

/// Returns the first field or value of `probe` that podgate does not know. If podgate ignored this field or value,
/// podgate's probe would differ from the kubelet's.
fn unknown_field(probe: &Value) -> Option<String> {
    let headers = probe.pointer("/httpGet/httpHeaders").and_then(Value::as_array).map_or(0, Vec::len);
    let headers = (0..headers).map(|index| (format!("/httpGet/httpHeaders/{index}"), "name value"));
    let places = FIELDS.iter().map(|(at, known)| ((*at).to_owned(), *known)).chain(headers);
    let fields = places.flat_map(|(at, known)| {
        let fields = probe.pointer(&at).and_then(Value::as_object).into_iter().flatten();
        let unknown = fields.map(|(field, _)| field).filter(|field| known.split(' ').all(|one| one != *field));
        unknown.map(|field| format!("{at}/{field}")).collect::<Vec<_>>()
    });
    let words = [("/grpc/mode", ["TLS", "Plaintext"]), ("/httpGet/protocol", ["HTTP1", "HTTP2"])].into_iter();
    let words = words.filter_map(|(at, known)| {
        let word = probe.pointer(at)?.as_str().filter(|word| !word.is_empty() && !known.contains(word))?;
        Some(format!("{at}/{word}"))
    });
    fields.chain(words).map(|path| path[1..].replace('/', ".")).next()
}

/// Returns the problem of a probe that podgate cannot read, and the fix.
fn probe_problem(probe: &Value) -> (String, &'static str) {
    if let Some(field) = unknown_field(probe) {
        return (format!("has {field}, which podgate does not support"), "remove it, or update podgate");
    }
    let given = ["exec", "httpGet", "tcpSocket", "grpc"].into_iter().find(|action| probe.get(action).is_some());
    let Some(action) = given else {
        return ("has no action".to_owned(), "write one of exec, httpGet, tcpSocket and grpc");
    };
    let mut numbers =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"].into_iter();
    let is_wrong = |field: &str| probe.get(field).is_some_and(|value| u32::deserialize(value).is_err());
    if let Some(field) = numbers.find(|field| is_wrong(field)) {
        return (format!("has a {field} that is not a whole number"), "write a number without a unit");
    }
    if action != "exec" && PortRef::deserialize(&probe[action]["port"]).is_err() {
        return (format!("has no valid port in {action}"), "write a port number, or the name of a container port");
    }
    (format!("has a field of the wrong type in {action}"), "write the probe as the Pod API defines it")
}

/// Returns the list as JSON, with one line per container.
pub(super) fn render(list: &[Container]) -> String {
    let lines: Vec<String> = list.iter().filter_map(|container| serde_json::to_string(container).ok()).collect();
    format!("[{}]", lines.join(",\n "))
}

/// Returns the text of the list in the sidecar's environment; `None` if it is missing or too long.
pub(in crate::order) fn list_text(sidecar: &Value) -> Option<String> {
    let variables = sidecar.get("env")?.as_array()?;
    let variable = variables.iter().find(|variable| parts::item_name(variable) == Some(CONTAINERS_VARIABLE))?;
    let text = variable.get("value")?.as_str().filter(|text| text.len() <= VARIABLE_SIZE_MAX)?;
    Some(dollars::unescape(text))
}

/// Reads the list from the sidecar's environment; `None` if the list is missing or invalid.
pub(super) fn from_sidecar(sidecar: &Value) -> Option<Vec<Container>> {
    parse_list(&list_text(sidecar)?).ok()
}

/// Describes the first value that differs between two lists: that of the sidecar, and that for the manifest.
pub(in crate::order) fn difference(listed: &[Container], wanted: &[Container]) -> Option<String> {
    let by_name = |list: &[Container]| -> Value {
        let entry = |(position, entry): (usize, &Container)| {
            let (name, mut entry) = (entry.name.clone(), json!(entry));
            // Only hooks depend on the order of the list.
            if listed.iter().any(|one| one.mode == Mode::PostStart) {
                entry["position"] = position.into();
            }
            let until = entry.get_mut("until").and_then(Value::as_array_mut);
            until.into_iter().for_each(|until| until.sort_by_key(Value::to_string));
            (name, entry)
        };
        list.iter().enumerate().map(entry).collect()
    };
    let (field, [old, new]) = first_difference("", &by_name(listed), &by_name(wanted))?;
    Some(format!("{field} is {old} in the sidecar's list, but {new} in the manifest"))
}

/// Returns the entry without the fields that do not decide when other containers start.
pub(in crate::order) fn start_relevant_fields(entry: &Container) -> Container {
    let Container { name, mode, until, startup_probe, readiness_probe, .. } = entry.clone();
    Container { name, mode, until, startup_probe, readiness_probe, ..Container::default() }
}

/// Returns the path of the first value that differs, and both values.
fn first_difference(at: &str, old: &Value, new: &Value) -> Option<(String, [String; 2])> {
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        return keys.into_iter().find_map(|key| first_difference(&format!("{at}.{key}"), &old[key], &new[key]));
    }
    let text = |value: &Value| match value {
        Value::Null => "not set".to_owned(),
        other => other.to_string().replace('"', "").chars().take(100).collect(),
    };
    (old != new).then(|| (at.trim_start_matches('.').to_owned(), [text(old), text(new)]))
}

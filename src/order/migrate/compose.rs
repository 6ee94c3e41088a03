//! Migrates a Compose file's `depends_on` (<https://docs.docker.com/reference/compose-file/services/#depends_on>). In
//! a list, each service has the condition `service_started`. In a map, each service has an explicit condition.

use super::migration::{Migration, plain_name};
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn migrate(file: &Value, migration: &mut Migration<'_>) {
    let services = &file["services"];
    let Some(names) = services.as_object().map(|services| services.keys().collect::<BTreeSet<_>>()) else {
        return migration.reject("the Compose file has no services", "pass a file with a top-level services key");
    };
    let (mut fitting, mut written) = (0, 0);
    for name in names {
        let Some(waiter) = migration.find_container(name) else {
            if services[name].get("depends_on").is_some() {
                let name = quoted(name);
                let what = format!("the service {name} has no container in this Pod, so its depends_on is ignored");
                migration.warn_not_migrated(what, "");
            }
            continue;
        };
        fitting += 1;
        let (mut needs, mut outside) = (Vec::new(), Vec::new());
        for (other, want) in dependencies(&waiter, &services[name], migration) {
            let Some(container) = migration.find_container(&other) else {
                let port = tcp_port(&services[&other]).filter(|_| want != WantedState::Completed);
                match port.filter(|_| migration.may_have_gate(&waiter)) {
                    Some(port) => outside.push(format!("tcp://{}:{port}", plain_name(&other))),
                    None => warn_outside(&waiter, &other, migration),
                }
                continue;
            };
            if want == WantedState::Ready {
                warn_missing_probe(&container, &services[&other]["healthcheck"]["test"], migration);
                needs.push(container);
            } else {
                needs.push(WaitCondition { container, want }.to_string());
            }
        }
        for other in services[name]["external_links"].as_array().into_iter().flatten() {
            warn_outside(&waiter, other.as_str().unwrap_or_default(), migration);
        }
        if !outside.is_empty() {
            let checks = outside.join(", ");
            migration.annotate(&format!("{}{waiter}", keys::CHECK_PREFIX), &checks);
            migration.note_migrated(format!(
                "{waiter} waits for {checks}; correct the host if its Service has another name"
            ));
            written += 1;
        }
        if !needs.is_empty() {
            let needs = needs.join(", ");
            migration.annotate(&format!("{}{waiter}", keys::AFTER_PREFIX), &needs);
            migration.note_migrated(format!("{waiter} waits for {needs}"));
            written += 1;
        }
    }
    if written == 0 {
        let what = match fitting {
            0 => "no service in the Compose file has the name of a container in this Pod",
            _ => "no service in the Compose file depends on another container of this Pod",
        };
        migration.reject(what, "pass the Compose file that belongs to this Pod");
    }
}

/// Warns that `waiter` depends on the service `other` outside the Pod, for which no check can be written.
fn warn_outside(waiter: &str, other: &str, migration: &mut Migration<'_>) {
    let what = format!("{waiter} depends on {}, which has no container in this Pod and is ignored", quoted(other));
    let fix = format!("write {}{waiter}: \"tcp://HOST:PORT\", which needs the command of {waiter}", keys::CHECK_PREFIX);
    migration.warn_not_migrated(what, fix);
}

/// Returns the first TCP port in `expose` or `ports` of a service: the port in its container.
fn tcp_port(service: &Value) -> Option<u16> {
    let mut entries = ["expose", "ports"].into_iter().filter_map(|field| service[field].as_array()).flatten();
    entries.find_map(|entry| {
        let (target, protocol) = (entry.get("target").unwrap_or(entry), entry.get("protocol").and_then(Value::as_str));
        let text = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
        let text = text.strip_suffix("/tcp").unwrap_or(&text);
        text.rsplit(':').next()?.parse().ok().filter(|_| protocol.is_none_or(|protocol| protocol == "tcp"))
    })
}

/// Returns the services in `depends_on` and `links` of the container `waiter` and their wanted states, sorted by name.
fn dependencies(waiter: &str, service: &Value, migration: &mut Migration<'_>) -> Vec<(String, WantedState)> {
    let (mut found, mut restarts) = (Vec::new(), false);
    match &service["depends_on"] {
        Value::Null => {}
        Value::Array(list) => {
            for other in list {
                match other.as_str() {
                    Some(other) => found.push((other.to_owned(), WantedState::Started)),
                    None => migration.warn_not_migrated(format!("{waiter} depends on an invalid name"), ""),
                }
            }
        }
        Value::Object(map) => {
            for (other, how) in map {
                let want = match how["condition"].as_str() {
                    None | Some("service_started") => WantedState::Started,
                    Some("service_healthy") => WantedState::Ready,
                    Some("service_completed_successfully") => WantedState::Completed,
                    Some(condition) => {
                        let what = format!("{} is not a condition of Compose", quoted(condition));
                        let fix = "write service_started, service_healthy or service_completed_successfully";
                        migration.reject(what, fix);
                        continue;
                    }
                };
                restarts |= how["restart"] == true && migration.find_container(other).is_some();
                if how["required"] != false || migration.find_container(other).is_some() {
                    found.push((other.clone(), want));
                }
            }
        }
        _ => {
            migration.reject(format!("depends_on of {waiter} is neither a list nor a map"), "write depends_on: [db]");
        }
    }
    if restarts {
        let key = format!("{}{waiter}", keys::ON_DEPENDENCY_RESTART_PREFIX);
        if migration.may_have_gate(waiter) {
            migration.annotate(&key, "restart");
            migration.note_migrated(format!("{waiter} restarts with each of its dependencies"));
        } else {
            let fix = format!("write {key}: restart, which needs the command of {waiter}");
            migration.warn_not_migrated(format!("restart: true of {waiter} is not migrated"), fix);
        }
    }
    let links = service["links"].as_array().into_iter().flatten().filter_map(Value::as_str);
    found.extend(links.map(|link| (link.split(':').next().unwrap_or(link).to_owned(), WantedState::Started)));
    // A link only adds a dependency that `depends_on` does not have.
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|later, first| later.0 == first.0);
    found
}

/// Warns if a container that must become healthy has no probe. Suggests the `test` of the service's `healthcheck` as a
/// probe.
fn warn_missing_probe(container: &str, test: &Value, migration: &mut Migration<'_>) {
    let Some(own) = migration.spec.get(container) else { return };
    if own.probe("readinessProbe").is_some() || own.probe("startupProbe").is_some() {
        return;
    }
    let words: Vec<&str> = match test {
        Value::String(line) => vec!["CMD-SHELL", line],
        list => list.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let command = match words.as_slice() {
        ["CMD", rest @ ..] => Some(rest.to_vec()),
        ["CMD-SHELL", rest @ ..] => Some([&["sh", "-c"], rest].concat()),
        _ => None,
    };
    let fix = match command {
        Some(words) => format!("write its healthcheck as readinessProbe: {{exec: {{command: {}}}}}", json!(words)),
        None => "add a readinessProbe".to_owned(),
    };
    let what = format!(
        "a service waits until {container} is healthy, but {container} has no probe in this manifest, so it counts as \
         Ready once it runs"
    );
    migration.warn_not_migrated(what, fix);
}

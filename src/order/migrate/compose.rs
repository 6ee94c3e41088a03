//! Migrates a Compose file's `depends_on` (<https://docs.docker.com/reference/compose-file/services/#depends_on>). In
//! a list, each service has the condition `service_started`. In a map, each service has an explicit condition.

use super::migration::Migration;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use crate::order::edit::Place;
use serde_json::{Value, json};

pub(super) fn migrate(file: &Value, migration: &mut Migration<'_>) {
    let root = || Place::root().to("metadata");
    let Some(services) = file.get("services").and_then(Value::as_object) else {
        let what = "the Compose file has no services";
        return migration.add_error(root(), what, "pass a file with a top-level services key");
    };
    let mut names: Vec<&String> = services.keys().collect();
    names.sort();
    let fitting = names.iter().filter(|name| migration.find_container(name).is_some()).count();
    let mut written = 0;
    for name in names {
        let Some(waiter) = migration.find_container(name) else {
            if services[name].get("depends_on").is_some() {
                migration.warn_not_migrated(
                    format!("the service {} has no container in this Pod, so its depends_on is ignored", quoted(name)),
                    "",
                );
            }
            continue;
        };
        let mut needs = Vec::new();
        for (other, want) in dependencies(name, &services[name], migration) {
            let Some(container) = migration.find_container(&other) else {
                let other = quoted(&other);
                let what = format!("{waiter} depends on {other}, which has no container in this Pod and is ignored");
                let fix = "wait for services outside the Pod with a check: podgate entrypoint --check tcp://HOST:PORT";
                migration.warn_not_migrated(what, fix);
                continue;
            };
            if want == WantedState::Ready {
                warn_missing_probe(&container, services.get(&other), migration);
            }
            let until = WaitCondition { container, want };
            needs.push(if want == WantedState::Ready { until.container } else { until.to_string() });
        }
        if !needs.is_empty() {
            migration.annotate(&format!("{}{waiter}", keys::AFTER_PREFIX), &needs.join(", "));
            migration.note_migrated(format!("{waiter} waits for {}", needs.join(", ")));
            written += 1;
        }
    }
    if written == 0 {
        let what = match fitting {
            0 => "no service in the Compose file has the name of a container in this Pod",
            _ => "no service in the Compose file depends on another container of this Pod",
        };
        migration.add_error(root(), what, "pass the Compose file that belongs to this Pod");
    }
}

/// Returns a service's dependencies and their wanted states, sorted by name.
fn dependencies(name: &str, service: &Value, migration: &mut Migration<'_>) -> Vec<(String, WantedState)> {
    let mut found = Vec::new();
    match service.get("depends_on") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for other in list {
                match other.as_str() {
                    Some(other) => found.push((other.to_owned(), WantedState::Started)),
                    None => migration.warn_not_migrated(format!("{} depends on an invalid name", quoted(name)), ""),
                }
            }
        }
        Some(Value::Object(map)) => {
            for (other, how) in map {
                let want = match how.get("condition").and_then(Value::as_str) {
                    None | Some("service_started") => WantedState::Started,
                    Some("service_healthy") => WantedState::Ready,
                    Some("service_completed_successfully") => WantedState::Completed,
                    Some(condition) => {
                        let what = format!("{} is not a condition of Compose", quoted(condition));
                        let fix = "write service_started, service_healthy or service_completed_successfully";
                        migration.add_error(Place::root().to("metadata"), what, fix);
                        continue;
                    }
                };
                if how.get("restart").and_then(Value::as_bool) == Some(true) {
                    let what = format!("restart: true of {} for {} is not migrated", quoted(name), quoted(other));
                    migration.warn_not_migrated(
                        what,
                        "add --on-provider-restart restart to its gate by hand (docs/recipes.md)",
                    );
                }
                if how.get("required").and_then(Value::as_bool) == Some(false)
                    && migration.find_container(other).is_none()
                {
                    continue;
                }
                found.push((other.clone(), want));
            }
        }
        Some(_) => {
            let what = format!("depends_on of {} is neither a list nor a map", quoted(name));
            migration.add_error(Place::root().to("metadata"), what, "write depends_on: [db]");
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup();
    found
}

/// Warns if a container that must become healthy has no probe. Suggests the service's `healthcheck` as a probe.
fn warn_missing_probe(container: &str, service: Option<&Value>, migration: &mut Migration<'_>) {
    let Some(own) = migration.spec.get(container) else { return };
    if own.probe("readinessProbe").is_some() || own.probe("startupProbe").is_some() {
        return;
    }
    let test = service.and_then(|service| service.get("healthcheck")).and_then(|check| check.get("test"));
    let command: Option<Vec<&str>> = match test {
        Some(Value::String(line)) => Some(vec!["sh", "-c", line]),
        Some(Value::Array(list)) => {
            let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                ["CMD", rest @ ..] => Some(rest.to_vec()),
                ["CMD-SHELL", rest @ ..] => Some([&["sh", "-c"], rest].concat()),
                _ => None,
            }
        }
        _ => None,
    };
    let fix = match command {
        Some(words) => {
            format!("write its healthcheck as readinessProbe: {{exec: {{command: {}}}}}", json!(words))
        }
        None => "add a readinessProbe".to_owned(),
    };
    migration.warn_not_migrated(format!("a service waits until {container} is healthy, but {container} has no probe in this manifest, so it counts as Ready once it runs"), fix);
}

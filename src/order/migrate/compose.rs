//! A Compose file's `depends_on` (<https://docs.docker.com/reference/compose-file/services/#depends_on>): a list is
//! `service_started`; a map names a condition for each.

use super::migration::Migration;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use crate::order::edit::Place;
use serde_json::{Value, json};

pub(super) fn migrate(file: &Value, sheet: &mut Migration<'_>) {
    let root = || Place::root().to("metadata");
    let Some(services) = file.get("services").and_then(Value::as_object) else {
        let what = "the Compose file has no services";
        return sheet.add_error(root(), what, "name a file with services: at its top");
    };
    let mut names: Vec<&String> = services.keys().collect();
    names.sort();
    let fitting = names.iter().filter(|name| sheet.find_container(name).is_some()).count();
    let mut written = 0;
    for name in names {
        let Some(waiter) = sheet.find_container(name) else {
            if services[name].get("depends_on").is_some() {
                sheet.warn_not_migrated(
                    format!("the service {} is no container of this Pod: what it waits for is left out", quoted(name)),
                    "",
                );
            }
            continue;
        };
        let mut needs = Vec::new();
        for (other, want) in dependencies(name, &services[name], sheet) {
            let Some(container) = sheet.find_container(&other) else {
                let other = quoted(&other);
                let what = format!("{waiter} depends on {other}, which is no container of this Pod: that is left out");
                let fix =
                    "what is outside of the Pod is waited for by a check: podgate entrypoint --check tcp://HOST:PORT";
                sheet.warn_not_migrated(what, fix);
                continue;
            };
            if want == WantedState::Ready {
                warn_missing_probe(&container, services.get(&other), sheet);
            }
            let until = WaitCondition { container, want };
            needs.push(if want == WantedState::Ready { until.container } else { until.to_string() });
        }
        if !needs.is_empty() {
            sheet.annotate(&format!("{}{waiter}", keys::AFTER_PREFIX), &needs.join(", "));
            sheet.note_migrated(format!("{waiter} waits for {}", needs.join(", ")));
            written += 1;
        }
    }
    if written == 0 {
        let what = match fitting {
            0 => "no service of the Compose file has the name of a container of this Pod",
            _ => "no service of the Compose file depends on another that is a container of this Pod",
        };
        sheet.add_error(root(), what, "name the file that belongs to this Pod");
    }
}

/// What a service depends on, in the order of their names.
fn dependencies(name: &str, service: &Value, sheet: &mut Migration<'_>) -> Vec<(String, WantedState)> {
    let mut found = Vec::new();
    match service.get("depends_on") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for other in list {
                match other.as_str() {
                    Some(other) => found.push((other.to_owned(), WantedState::Started)),
                    None => {
                        sheet.warn_not_migrated(format!("{} depends on something that is no name", quoted(name)), "")
                    }
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
                        let what = format!("{} is no condition of Compose's", quoted(condition));
                        let fix = "write service_started, service_healthy or service_completed_successfully";
                        sheet.add_error(Place::root().to("metadata"), what, fix);
                        continue;
                    }
                };
                if how.get("restart").and_then(Value::as_bool) == Some(true) {
                    let what =
                        format!("that {} starts again when {} does is not carried over", quoted(name), quoted(other));
                    sheet.warn_not_migrated(
                        what,
                        "give its gate --on-provider-restart restart by hand (docs/recipes.md)",
                    );
                }
                if how.get("required").and_then(Value::as_bool) == Some(false) && sheet.find_container(other).is_none()
                {
                    continue;
                }
                found.push((other.clone(), want));
            }
        }
        Some(_) => {
            let what = format!("depends_on of {} is neither a list nor a map", quoted(name));
            sheet.add_error(Place::root().to("metadata"), what, "write depends_on: [db]");
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup();
    found
}

/// A container that is waited for until it is healthy needs a probe, which a Compose file gives as `healthcheck`.
fn warn_missing_probe(container: &str, service: Option<&Value>, sheet: &mut Migration<'_>) {
    let Some(own) = sheet.spec.get(container) else { return };
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
        Some(words) => format!("its healthcheck as a probe: readinessProbe: {{exec: {{command: {}}}}}", json!(words)),
        None => "give it a readinessProbe".to_owned(),
    };
    sheet.warn_not_migrated(format!("{container} is waited for until it is healthy, but has no probe in this manifest: it counts as Ready once it runs"), fix);
}

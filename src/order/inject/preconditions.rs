//! Reports errors that prevent an injection, before podgate writes any part.

use crate::order::edit::{PathSegment, Place};
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, AGENT_FIELDS, MOUNT_PATHS, VOLUMES};
use crate::order::plan::Plan;
use serde_json::Value;
use std::path::Path;

fn wrong_type(at: Place, expected: &str) -> Finding {
    let what = match at.0.last() {
        Some(PathSegment::Key(key)) => format!("{key} must be {expected}"),
        _ => format!("the value must be {expected}"),
    };
    Finding::error("wrong-type", at, what).fix("write the field as the Pod API defines it")
}

/// Returns errors that prevent any injection. The planner has already checked the containers' names.
pub(super) fn check_template(template: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    let metadata = Place::root().to("metadata");
    let absent_or =
        |at: &Place, is: fn(&Value) -> bool| at.of(template).is_none_or(|value| value.is_null() || is(value));
    for (at, is, kind) in [
        (metadata.clone(), Value::is_object as fn(&Value) -> bool, "an object"),
        (metadata.to("annotations"), Value::is_object, "an object"),
        (Place::spec("initContainers"), Value::is_array, "a list"),
        (Place::spec("volumes"), Value::is_array, "a list"),
    ] {
        if !absent_or(&at, is) {
            found.push(wrong_type(at, kind));
        }
    }
    if let Some(at) = windows_place(template) {
        let what = "this Pod runs on Windows, but podgate's agent and sidecar are Linux programs";
        found.push(Finding::error("windows", at, what).fix("remove podgate's annotations"));
    }
    let ephemeral = Place::spec("ephemeralContainers");
    if !ephemeral.items(template).is_empty() || !absent_or(&ephemeral, Value::is_array) {
        let what =
            "Kubernetes rejects a new Pod with ephemeral containers; they can only join a running Pod (kubectl debug)";
        found.push(Finding::error("ephemeral-containers", ephemeral, what).fix("remove them"));
    }
    check_names(template, &mut found);
    found
}

/// Returns the place of a field that makes the Pod run on Windows.
fn windows_place(template: &Value) -> Option<Place> {
    let labels = ["kubernetes.io/os", "beta.kubernetes.io/os"].map(|label| Place::spec("nodeSelector").to(label));
    let mut places = labels.into_iter().chain([Place::spec("os").to("name")]);
    places.find(|place| place.of(template).is_some_and(|os| os == "windows"))
}

/// Reports containers and volumes with names of podgate's own parts, and parts of podgate that were added by hand.
fn check_names(template: &Value, found: &mut Vec<Finding>) {
    let fix = "rename it; if it is a part of podgate that was added by hand, remove all parts of podgate";
    if let Some((place, _)) = parts::find_sidecar(template) {
        let what = "a container is already named podgate, which is the name of podgate's sidecar";
        found.push(Finding::error("name-taken", place.to("name"), what).fix(fix));
    }
    let volumes = Place::spec("volumes");
    for (at, item) in volumes.items(template).iter().enumerate() {
        if let Some(name) = parts::item_name(item).filter(|name| VOLUMES.contains(name)) {
            let what = format!("a volume is already named {name}, which is the name of one of podgate's volumes");
            found.push(Finding::error("name-taken", volumes.to(at).to("name"), what).fix(fix));
        }
    }
    let containers = Place::spec("containers");
    for (at, item) in containers.items(template).iter().enumerate() {
        find_manual_parts(item, &containers.to(at), found);
    }
}

/// Reports commands and mounts of podgate that were added by hand, without podgate's record.
fn find_manual_parts(container: &Value, place: &Place, found: &mut Vec<Finding>) {
    let lines = AGENT_FIELDS.iter().filter(|(short, _)| parts::agent_line(container, short).is_some());
    let lines = lines.map(|(short, _)| parts::field_place(place, short));
    let own_items = |field: &'static str| {
        let items = Place::root().to(field).items(container).iter().enumerate();
        items.filter(|(_, item)| parts::is_own_item(item)).map(move |(at, _)| place.to(field).to(at))
    };
    found.extend(lines.chain(own_items("env")).chain(own_items("volumeMounts")).map(|at| {
        let fix = "remove it, or keep it and remove podgate's annotations";
        Finding::error("by-hand", at, "this part of podgate was added by hand").fix(fix)
    }));
}

/// Returns errors in the containers that `plan` changes.
pub(super) fn check_plan(template: &Value, plan: &Plan) -> Vec<Finding> {
    let list = Place::spec("containers");
    let mut found = Vec::new();
    for planned in plan.containers.iter().filter(|planned| planned.is_modified()) {
        let (container, place) = (&list.items(template)[planned.index], list.to(planned.index));
        for (field, is, kind) in [
            ("lifecycle", Value::is_object as fn(&Value) -> bool, "an object"),
            ("volumeMounts", Value::is_array, "a list"),
        ] {
            if container.get(field).is_some_and(|value| !value.is_null() && !is(value)) {
                found.push(wrong_type(place.to(field), kind));
            }
        }
        let mounts = place.to("volumeMounts");
        for (at, mount) in mounts.items(template).iter().enumerate() {
            let path = mount["mountPath"].as_str().unwrap_or_default();
            let full = Path::new("/").join(path);
            if let Some(own) = MOUNT_PATHS.iter().find(|own| full.starts_with(own)) {
                let what = format!("{} mounts a volume at {path}, but podgate mounts its own at {own}", planned.name);
                let at = mounts.to(at).to("mountPath");
                found.push(Finding::error("path-taken", at, what).fix("use another mountPath"));
            }
        }
    }
    found
}

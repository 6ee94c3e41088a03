//! What can't be injected into, found before anything is written.

use crate::core::container::Mode;
use crate::core::names;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, AGENT_FIELDS, MOUNT_PATHS, SIDECAR, VOLUMES};
use crate::order::plan::Plan;
use serde_json::Value;
use std::collections::BTreeSet;

fn wrong_type(at: Place, is_not: &str) -> Finding {
    Finding::error("strange-type", at, format!("this is no {is_not}")).fix("write it as the Pod API has it")
}

/// What no plan could fix: errors alone. That there are containers, and that each has a name of its own, the plan has seen to.
pub(super) fn check_template(template: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    let metadata = Place::root().to("metadata");
    let absent_or =
        |at: &Place, is: fn(&Value) -> bool| at.of(template).is_none_or(|value| value.is_null() || is(value));
    for (at, is, kind) in [
        (metadata.clone(), Value::is_object as fn(&Value) -> bool, "object"),
        (metadata.to("annotations"), Value::is_object, "object"),
        (parts::spec_place("initContainers"), Value::is_array, "list"),
        (parts::spec_place("volumes"), Value::is_array, "list"),
    ] {
        if !absent_or(&at, is) {
            found.push(wrong_type(at, kind));
        }
    }
    if parts::spec_place("os").to("name").of(template).is_some_and(|os| os == "windows") {
        let what = "this Pod runs on Windows, and podgate's agent and sidecar are programs for Linux";
        found.push(Finding::error("windows", parts::spec_place("os"), what).fix("take podgate's annotations out"));
    }
    let ephemeral = parts::spec_place("ephemeralContainers");
    if !parts::items(template, &ephemeral).is_empty() || !absent_or(&ephemeral, Value::is_array) {
        let what =
            "ephemeral containers come into a Pod that runs already (kubectl debug): with them none can be created";
        found.push(Finding::error("ephemeral-containers", ephemeral, what).fix("take them out"));
    }
    check_names(template, &mut found);
    found
}

/// Names of podgate's that something else has.
fn check_names(template: &Value, found: &mut Vec<Finding>) {
    let fix = "rename it; if it is podgate's, put in by hand, take out all that is podgate's";
    for field in ["initContainers", "containers"] {
        let list = parts::spec_place(field);
        let mut seen = BTreeSet::new();
        for (at, item) in parts::items(template, &list).iter().enumerate() {
            let place = || list.to(at).to("name");
            found.push(match parts::item_name(item) {
                Some(SIDECAR) => {
                    let what =
                        "there is a container named podgate already, and that is the name of podgate's own sidecar";
                    Finding::error("name-taken", place(), what).fix(fix)
                }
                Some(name) if names::is_container_name(name) && seen.insert(name) => continue,
                Some(name) if names::is_container_name(name) => {
                    let what = format!("the name {name} stands here twice");
                    Finding::error("doubled-container", place(), what).fix("rename one")
                }
                _ => {
                    let what = "this container has no name, or none that Kubernetes takes";
                    Finding::error("bad-container", list.to(at), what).fix("name it")
                }
            });
        }
    }
    let volumes = parts::spec_place("volumes");
    for (at, item) in parts::items(template, &volumes).iter().enumerate() {
        if let Some(name) = parts::item_name(item).filter(|name| VOLUMES.contains(name)) {
            let what = format!("there is a volume named {name} already, and that is the name of one of podgate's own");
            found.push(Finding::error("name-taken", volumes.to(at).to("name"), what).fix(fix));
        }
    }
    let containers = parts::spec_place("containers");
    for (at, item) in parts::items(template, &containers).iter().enumerate() {
        find_manual_parts(item, &containers.to(at), found);
    }
}

/// Parts of podgate's that are there without its record.
fn find_manual_parts(container: &Value, place: &Place, found: &mut Vec<Finding>) {
    let lines = AGENT_FIELDS.iter().filter(|(short, _)| parts::agent_line(container, short).is_some());
    let lines = lines.map(|(short, _)| parts::field_place(place, short));
    let mounts = parts::items(container, &Place::root().to("volumeMounts")).iter().enumerate();
    let mounts = mounts.filter(|(_, mount)| parts::is_own_volume(mount)).map(|(at, _)| place.to("volumeMounts").to(at));
    found.extend(lines.chain(mounts).map(|at| {
        let fix = "take it out, or take podgate's annotations out and keep what is there";
        Finding::error("by-hand", at, "this is podgate's already, put in by hand").fix(fix)
    }));
}

/// What stands in the way of this plan.
pub(super) fn check_plan(template: &Value, plan: &Plan) -> Vec<Finding> {
    let list = parts::spec_place("containers");
    let items = parts::items(template, &list);
    let mut found = Vec::new();
    for planned in &plan.containers {
        if planned.is_modified() || planned.is_outlived {
            check_container(
                &items[planned.index],
                &list.to(planned.index),
                planned.mode == Mode::Entrypoint,
                &mut found,
            );
        }
    }
    found
}

/// What stands in the way in a container that gets something.
fn check_container(container: &Value, place: &Place, has_gate: bool, found: &mut Vec<Finding>) {
    let given = |field: &str| container.get(field).filter(|value| !value.is_null());
    for field in ["command", "args"].into_iter().filter(|_| has_gate) {
        if given(field).is_some() && parts::string_list(given(field)).is_none() {
            found.push(wrong_type(place.to(field), "list of strings"));
        }
    }
    if given("lifecycle").is_some_and(|lifecycle| !lifecycle.is_object()) {
        found.push(wrong_type(place.to("lifecycle"), "object"));
    }
    let mounts = place.to("volumeMounts");
    match given("volumeMounts") {
        None => {}
        Some(Value::Array(list)) => {
            for (at, mount) in list.iter().enumerate() {
                let path = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
                let under =
                    |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                if let Some(own) = MOUNT_PATHS.iter().find(|own| under(own)) {
                    let what = format!(
                        "something of the container's is mounted at {path}, and podgate mounts its own at {own}"
                    );
                    let at = mounts.to(at).to("mountPath");
                    found.push(Finding::error("path-taken", at, what).fix("mount it elsewhere"));
                }
            }
        }
        Some(_) => found.push(wrong_type(mounts, "list")),
    }
}

//! Reports errors that prevent an injection, before podgate writes any part.

use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, FIELD_SUBCOMMANDS, VOLUME_NAMES};
use serde_json::Value;

/// Returns errors that prevent any injection. The planner has already checked the containers' names.
pub(super) fn check_template(template: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(at) = windows_place(template) {
        let what = "this Pod runs on Windows, but podgate's agent and sidecar are Linux programs";
        found.push(Finding::error("windows", at, what).fix("remove podgate's annotations"));
    }
    check_names(template, &mut found);
    found
}

/// Returns the place of a field that makes the Pod run on Windows.
fn windows_place(template: &Value) -> Option<Place> {
    let labels = ["kubernetes.io/os", "beta.kubernetes.io/os"].map(|label| Place::spec("nodeSelector").to(label));
    let mut places = labels.into_iter().chain([Place::spec("os").to("name")]);
    let list = Place::spec("containers");
    let is_windows = |own: &Value| own["image"].as_str().is_some_and(|image| image.contains("/windows/"));
    let image = list.items(template).iter().position(is_windows).map(|at| list.to(at).to("image"));
    places.find(|place| place.of(template).is_some_and(|os| os == "windows")).or(image)
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
        if let Some(name) = parts::item_name(item).filter(|name| VOLUME_NAMES.contains(name)) {
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
    let lines = FIELD_SUBCOMMANDS.iter().filter(|(short, _)| parts::agent_line(container, short).is_some());
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

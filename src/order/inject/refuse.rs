//! What can't be injected into, found before anything is written.

use crate::core::container::Mode;
use crate::core::names;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, PATHS, SIDECAR, VOLUMES};
use crate::order::plan::Plan;
use serde_json::Value;
use std::collections::BTreeSet;

fn strange(at: Place, is_not: &str) -> Finding {
    Finding::error("strange-type", at, format!("this is no {is_not}")).mend("write it as the Pod API has it")
}

/// What no plan could mend: errors alone.
pub(super) fn template(template: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    let root = Place::root();
    let absent_or =
        |at: &Place, is: fn(&Value) -> bool| at.of(template).is_none_or(|value| value.is_null() || is(value));
    if !template.is_object() {
        return vec![strange(root, "Pod or pod template")];
    }
    if !root.to("spec").of(template).is_some_and(Value::is_object) {
        let what = "there is no spec here, or it is no object";
        return vec![Finding::error("strange-type", root.to("spec"), what).mend("write it as the Pod API has it")];
    }
    for at in [root.to("metadata"), root.to("metadata").to("annotations")] {
        if !absent_or(&at, Value::is_object) {
            found.push(strange(at, "object"));
        }
    }
    for field in ["initContainers", "volumes"] {
        let at = parts::spec(field);
        if !absent_or(&at, Value::is_array) {
            found.push(strange(at, "list"));
        }
    }
    let containers = parts::spec("containers");
    match containers.of(template) {
        Some(Value::Array(list)) if !list.is_empty() => {}
        Some(Value::Array(_)) | Some(Value::Null) | None => {
            found.push(
                Finding::error("no-containers", containers.clone(), "there are no containers")
                    .mend("give the Pod some"),
            );
        }
        Some(_) => found.push(strange(containers.clone(), "list")),
    }
    if parts::spec("os").to("name").of(template).is_some_and(|os| os == "windows") {
        let what = "this Pod runs on Windows, and podgate's agent and sidecar are programs for Linux";
        found.push(Finding::error("windows", parts::spec("os"), what).mend("take podgate's annotations out"));
    }
    let ephemeral = parts::spec("ephemeralContainers");
    if !parts::items(template, &ephemeral).is_empty() || !absent_or(&ephemeral, Value::is_array) {
        let what =
            "ephemeral containers come into a Pod that runs already (kubectl debug): with them none can be created";
        found.push(Finding::error("ephemeral-containers", ephemeral, what).mend("take them out"));
    }
    taken(template, &mut found);
    found
}

/// Names of podgate's that something else has.
fn taken(template: &Value, found: &mut Vec<Finding>) {
    for field in ["initContainers", "containers"] {
        let list = parts::spec(field);
        let items = parts::items(template, &list);
        for (at, item) in items.iter().enumerate() {
            match parts::name(item) {
                Some(SIDECAR) => {
                    let what =
                        "there is a container named podgate already, and that is the name of podgate's own sidecar";
                    let mend = "rename it; if it is podgate's, put in by hand, take out all that is podgate's";
                    found.push(Finding::error("name-taken", list.to(at).to("name"), what).mend(mend));
                }
                Some(name) if names::is_container_name(name) => {}
                _ => found.push(
                    Finding::error(
                        "container-name",
                        list.to(at),
                        "this container has no name, or none that Kubernetes takes",
                    )
                    .mend("name it"),
                ),
            }
        }
        found.extend(doubled(items, &list));
    }
    let volumes = parts::spec("volumes");
    for (at, item) in parts::items(template, &volumes).iter().enumerate() {
        if let Some(name) = parts::name(item).filter(|name| VOLUMES.contains(name)) {
            let what = format!("there is a volume named {name} already, and that is the name of one of podgate's own");
            let mend = "rename it; if it is podgate's, put in by hand, take out all that is podgate's";
            found.push(Finding::error("name-taken", volumes.to(at).to("name"), what).mend(mend));
        }
    }
    let containers = parts::spec("containers");
    for (at, item) in parts::items(template, &containers).iter().enumerate() {
        by_hand(item, &containers.to(at), found);
    }
}

/// Names that are taken twice, by their place.
fn doubled(items: &[Value], list: &Place) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let is_new = |(at, item): (usize, &Value)| {
        let name = parts::name(item)?;
        (!seen.insert(name.to_owned())).then(|| {
            Finding::error("name-twice", list.to(at).to("name"), format!("the name {name} stands here twice"))
                .mend("rename one")
        })
    };
    items.iter().enumerate().filter_map(is_new).collect()
}

/// Parts of podgate's that are there without its record.
fn by_hand(container: &Value, place: &Place, found: &mut Vec<Finding>) {
    let ours =
        |words: Option<Vec<String>>, subcommand: &str| words.is_some_and(|words| parts::is_ours(&words, subcommand));
    let hook = |field: &str| parts::exec_words(container.get("lifecycle").and_then(|lifecycle| lifecycle.get(field)));
    let lifecycle = place.to("lifecycle");
    let mut seen = vec![
        (ours(parts::strings(container.get("command")), "entrypoint"), place.to("command")),
        (ours(parts::exec_words(container.get("startupProbe")), "opened"), place.to("startupProbe")),
        (ours(hook("postStart"), "post-start"), lifecycle.to("postStart")),
        (ours(hook("preStop"), "pre-stop"), lifecycle.to("preStop")),
    ];
    let mounts = place.to("volumeMounts");
    let list = container.get("volumeMounts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    seen.extend(
        list.iter()
            .enumerate()
            .map(|(at, mount)| (parts::name(mount).is_some_and(|name| VOLUMES.contains(&name)), mounts.to(at))),
    );
    for (_, at) in seen.into_iter().filter(|(is_there, _)| *is_there) {
        let what = "this is podgate's already, put in by hand";
        found.push(
            Finding::error("by-hand", at, what)
                .mend("take it out, or take podgate's annotations out and keep what is there"),
        );
    }
}

/// What stands in the way of this plan.
pub(super) fn plan(template: &Value, plan: &Plan) -> Vec<Finding> {
    let list = parts::spec("containers");
    let items = parts::items(template, &list);
    let mut indices: Vec<usize> = plan.containers.iter().map(|planned| planned.index).collect();
    indices.sort_unstable();
    let fits = |planned: &crate::order::plan::Planned| parts::name(&items[planned.index]) == Some(&planned.name);
    if indices != (0..items.len()).collect::<Vec<_>>() || !plan.containers.iter().all(fits) {
        return vec![Finding::error(
            "plan-misfit",
            list,
            "the plan is one for other containers; this is a fault of podgate's",
        )];
    }
    let mut found = Vec::new();
    for planned in &plan.containers {
        if planned.is_touched() || planned.is_stayed_for {
            container(&items[planned.index], &list.to(planned.index), planned.mode == Mode::Entrypoint, &mut found);
        }
    }
    found
}

/// What stands in the way in a container that gets something.
fn container(container: &Value, place: &Place, has_gate: bool, found: &mut Vec<Finding>) {
    let given = |field: &str| container.get(field).filter(|value| !value.is_null());
    for field in ["command", "args"].into_iter().filter(|_| has_gate) {
        if given(field).is_some() && parts::strings(given(field)).is_none() {
            found.push(strange(place.to(field), "list of strings"));
        }
    }
    if given("lifecycle").is_some_and(|lifecycle| !lifecycle.is_object()) {
        found.push(strange(place.to("lifecycle"), "object"));
    }
    let mounts = place.to("volumeMounts");
    match given("volumeMounts") {
        None => {}
        Some(Value::Array(list)) => {
            for (at, mount) in list.iter().enumerate() {
                let path = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
                let under =
                    |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                if let Some(own) = PATHS.iter().find(|own| under(own)) {
                    let what = format!(
                        "something of the container's is mounted at {path}, and podgate mounts its own at {own}"
                    );
                    found.push(
                        Finding::error("path-taken", mounts.to(at).to("mountPath"), what).mend("mount it elsewhere"),
                    );
                }
            }
        }
        Some(_) => found.push(strange(mounts, "list")),
    }
}

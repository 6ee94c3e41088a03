//! Finds podgate's parts that are missing or changed in a Pod from the API server.

use crate::order::edit::Place;
use crate::order::inject::container_list::sidecar_list;
use crate::order::inject::merge::covers;
use crate::order::inject::parts::{self, AGENT_FIELDS, SIDECAR, find_sidecar};
use serde_json::Value;

/// Returns the parts of `expected`, an injected Pod, that `returned` has lost, by container. The Pod's volumes count as
/// parts of the sidecar. Accepts a gate behind another program, such as a wrapper that reads secrets.
pub(crate) fn lost_parts(expected: &Value, returned: &Value) -> Vec<(String, Vec<String>)> {
    let mut lost = Vec::new();
    let list = Place::spec("containers");
    for own in list.items(expected) {
        let Some(name) = parts::item_name(own).filter(|name| *name != SIDECAR) else { continue };
        let mut others = list.items(returned).iter();
        let found = others.find(|item| parts::item_name(item) == Some(name)).unwrap_or(&Value::Null);
        let mut missing = lost_items(own, found, "env", "variable", parts::is_own_item);
        missing.extend(lost_items(own, found, "volumeMounts", "mount", parts::is_own_item));
        missing.extend(AGENT_FIELDS.iter().filter_map(|(short, _)| lost_line(own, found, short)));
        lost.push((name.to_owned(), missing));
    }
    let mut missing = lost_sidecar_parts(expected, returned);
    missing.extend(lost_items(&expected["spec"], &returned["spec"], "volumes", "volume", parts::is_own_item));
    lost.push((SIDECAR.to_owned(), missing));
    lost.retain(|(_, missing)| !missing.is_empty());
    lost
}

/// Returns the selected items of the list `field` in `own` that `found` does not have.
fn lost_items(own: &Value, found: &Value, field: &str, noun: &str, is_part: fn(&Value) -> bool) -> Vec<String> {
    let list = Place::root().to(field);
    let is_lost = |item: &&Value| is_part(item) && !list.items(found).iter().any(|other| covers(other, item));
    let lost = list.items(own).iter().filter(is_lost);
    lost.map(|item| format!("{noun} {}", parts::item_name(item).unwrap_or_default())).collect()
}

/// Returns the name of the field `short` if `own` has a command line of the agent in that field, but `found` does not.
/// The words of a hook or probe may differ, because podgate's webhook may have read other probes and hooks than the
/// manifest has.
fn lost_line(own: &Value, found: &Value, short: &str) -> Option<String> {
    let line = parts::agent_line(own, short)?.line;
    if short != "command" {
        return parts::agent_line(found, short).is_none().then(|| short.to_owned());
    }
    let gate = [line.to_argv(), vec!["--".to_owned()]].concat();
    let words = ["command", "args"].into_iter().filter_map(|field| parts::string_list(found.get(field)));
    let words: Vec<String> = words.flatten().collect();
    (!words.windows(gate.len()).any(|part| part == gate)).then(|| "gate".to_owned())
}

fn lost_sidecar_parts(expected: &Value, returned: &Value) -> Vec<String> {
    let Some((_, own)) = find_sidecar(expected) else { return Vec::new() };
    let Some((_, found)) = find_sidecar(returned) else { return vec!["the whole sidecar".to_owned()] };
    // The webhook may have read other probes than the manifest has, so the list of containers may differ.
    let is_part = |item: &Value| parts::item_name(item) != Some(parts::CONTAINERS_VARIABLE);
    let mut lost = lost_items(own, found, "env", "variable", is_part);
    if sidecar_list(returned).is_none() {
        lost.push(format!("variable {}", parts::CONTAINERS_VARIABLE));
    }
    lost.extend(lost_items(own, found, "volumeMounts", "mount", |_| true));
    let fields = ["command", "args", "lifecycle", "startupProbe"]
        .into_iter()
        .filter(|field| !covers(&found[*field], &own[*field]));
    lost.extend(fields.map(str::to_owned));
    lost
}

//! OpenKruise's container launch priority (<https://openkruise.io/docs/user-manuals/containerlaunchpriority/>): the annotation
//! `Ordered` is the order of the list; else `KRUISE_CONTAINER_PRIORITY` in a container's environment, the higher the earlier, 0 if
//! left out. The annotation outweighs the variables.

use super::migration::Migration;
use crate::order::declare::annotation_place;
use crate::order::declare::grammar::quoted;
use crate::order::edit::{Op, Place};
use serde_json::Value;
use std::collections::BTreeMap;

const PRIORITY_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
const PRIORITY_VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";

pub(super) fn migrate(template: &Value, sheet: &mut Migration<'_>) {
    let said = annotation_place(PRIORITY_ANNOTATION);
    let launch = said.of(template).map(|value| value.as_str().unwrap_or_default());
    if let Some(other) = launch.filter(|launch| *launch != "Ordered") {
        let what = format!("{} is no launch priority that OpenKruise knows, and it would not be kept", quoted(other));
        return sheet.add_error(said, what, "write Ordered, or take it out");
    }
    let is_ordered = launch.is_some();
    let Some(priorities) = priorities(sheet) else { return };
    if !is_ordered && priorities.is_empty() {
        let what =
            format!("there is no order of OpenKruise's here: neither {PRIORITY_ANNOTATION} nor {PRIORITY_VARIABLE}");
        return sheet.add_error(Place::root().to("metadata"), what, "leave --from kruise away");
    }
    let names = sheet.spec.containers.iter().map(|own| own.name.to_owned());
    let steps: Vec<Vec<String>> = if is_ordered {
        names.map(|name| vec![name]).collect()
    } else {
        let mut by_priority: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for name in names {
            let priority = priorities.iter().find(|(own, ..)| *own == name).map_or(0, |(_, priority, _)| *priority);
            by_priority.entry(priority).or_default().push(name);
        }
        by_priority.into_values().rev().collect()
    };
    sheet.write_order(&steps);
    // Both would hold the containers back, each in its own way.
    if is_ordered {
        sheet.edit(said, Op::Remove);
    }
    // From the last to the first, so that each is still where it was seen.
    for (.., place) in priorities.iter().rev() {
        sheet.edit(place.clone(), Op::Remove);
    }
    sheet.note_migrated(if is_ordered {
        format!("{PRIORITY_ANNOTATION}: Ordered is the order of the list; the annotation and each {PRIORITY_VARIABLE} are taken out")
    } else {
        format!(
            "each {PRIORITY_VARIABLE}, the higher the earlier and 0 where there is none, has become a step; they are taken out"
        )
    });
    sheet.note_migrated(
        "OpenKruise creates a container when all with a higher priority are ready, and restarts hold nobody back; a gate of podgate's \
         waits at a restart too",
    );
}

/// Each container that has one, with its priority and the variable's place.
fn priorities(sheet: &mut Migration<'_>) -> Option<Vec<(String, i64, Place)>> {
    let mut found = Vec::new();
    for own in &sheet.spec.containers {
        let list = own.value.get("env").and_then(Value::as_array);
        for (index, variable) in list.into_iter().flatten().enumerate() {
            if variable.get("name").and_then(Value::as_str) != Some(PRIORITY_VARIABLE) {
                continue;
            }
            let at = own.place().to("env").to(index);
            let text = variable.get("value").and_then(Value::as_str).unwrap_or_default();
            // OpenKruise reads what Go's Atoi does, and refuses the smallest.
            match text.parse::<i64>() {
                Ok(priority) if (-2_147_483_647..=2_147_483_647).contains(&priority) => {
                    found.push((own.name.to_owned(), priority, at));
                }
                _ => {
                    let what = format!("{} is no priority", quoted(text));
                    sheet.add_error(at, what, "write a whole number between -2147483647 and 2147483647, in quotes");
                    return None;
                }
            }
        }
    }
    Some(found)
}

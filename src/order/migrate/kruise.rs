//! Migrates OpenKruise's container launch priority
//! (<https://openkruise.io/docs/user-manuals/containerlaunchpriority/>). The annotation value `Ordered` selects the
//! order of the container list and takes precedence. Otherwise, each container sets its priority in the environment
//! variable `KRUISE_CONTAINER_PRIORITY` (default 0). Containers with a higher priority start earlier.

use super::migration::Migration;
use crate::order::declare::annotation_place;
use crate::order::declare::grammar::quoted;
use crate::order::edit::{Op, Place};
use serde_json::Value;
use std::collections::BTreeMap;

const PRIORITY_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
const PRIORITY_VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";

pub(super) fn migrate(template: &Value, migration: &mut Migration<'_>) {
    let annotation = annotation_place(PRIORITY_ANNOTATION);
    let launch = annotation.of(template).map(|value| value.as_str().unwrap_or_default());
    if let Some(other) = launch.filter(|launch| *launch != "Ordered") {
        let what = format!("{} is not a launch priority that OpenKruise supports", quoted(other));
        return migration.add_error(annotation, what, "write Ordered, or remove the annotation");
    }
    let is_ordered = launch.is_some();
    let Some(priorities) = priorities(migration) else { return };
    if !is_ordered && priorities.is_empty() {
        let what =
            format!("the template has no OpenKruise order: neither {PRIORITY_ANNOTATION} nor {PRIORITY_VARIABLE}");
        return migration.reject(what, "remove --from kruise");
    }
    let mut steps: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for (own, before) in migration.spec.containers.iter().zip(0..) {
        let own_priority =
            || priorities.iter().find(|(name, ..)| name == own.name).map_or(0, |(_, priority, _)| *priority);
        let priority = if is_ordered { -before } else { own_priority() };
        steps.entry(priority).or_default().push(own.name.to_owned());
    }
    migration.write_order(&steps.into_values().rev().collect::<Vec<_>>());
    // Remove OpenKruise's settings, so that only podgate holds the containers back.
    if is_ordered {
        migration.edit(annotation, Op::Remove);
    }
    // Remove the last variable first, so that the indices of the others remain valid.
    for (.., place) in priorities.iter().rev() {
        migration.edit(place.clone(), Op::Remove);
    }
    migration.note_migrated(if is_ordered {
        format!(
            "`{PRIORITY_ANNOTATION}: Ordered` starts the containers in list order; podgate removes the annotation and \
             every {PRIORITY_VARIABLE}"
        )
    } else {
        format!(
            "each value of {PRIORITY_VARIABLE} (0 if unset) becomes a step, highest first; podgate removes \
             the variables"
        )
    });
    migration.note_migrated(
        "OpenKruise holds a container back until all with a higher priority are ready, but not after a restart; podgate's gate also \
         waits after a restart",
    );
}

/// Returns the containers that set a priority, each with the priority and the place of the variable. `None` on error.
fn priorities(migration: &mut Migration<'_>) -> Option<Vec<(String, i64, Place)>> {
    let mut found = Vec::new();
    for own in &migration.spec.containers {
        let list = own.value["env"].as_array().into_iter().flatten().enumerate();
        for (index, variable) in list.filter(|(_, variable)| variable["name"] == PRIORITY_VARIABLE) {
            let at = own.place().to("env").to(index);
            let text = variable["value"].as_str().unwrap_or_default();
            // OpenKruise parses the value with Go's Atoi and rejects the smallest 32-bit integer.
            match text.parse::<i64>() {
                Ok(priority) if (-2_147_483_647..=2_147_483_647).contains(&priority) => {
                    found.push((own.name.to_owned(), priority, at));
                }
                _ => {
                    let what = format!("{} is not a priority", quoted(text));
                    migration.add_error(at, what, "write a whole number between -2147483647 and 2147483647, in quotes");
                    return None;
                }
            }
        }
    }
    Some(found)
}

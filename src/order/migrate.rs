//! Converts OpenKruise's container launch priority to podgate's annotations
//! (<https://openkruise.io/docs/user-manuals/containerlaunchpriority/>). The annotation value `Ordered` selects the
//! order of the container list and takes precedence. Otherwise, each container sets its priority in the environment
//! variable `KRUISE_CONTAINER_PRIORITY` (default 0). Containers with a higher priority start earlier.

use crate::order::declare::grammar::quoted;
use crate::order::declare::spec::{Spec, items_of};
use crate::order::declare::{annotation_place, is_declared, keys};
use crate::order::edit::{Editor, Op, Place};
use crate::order::finding::{Finding, has_errors};
use crate::order::inject::Injected;
use serde_json::Value;
use std::collections::BTreeMap;

const PRIORITY_ANNOTATION: &str = "apps.kruise.io/container-launch-priority";
const PRIORITY_VARIABLE: &str = "KRUISE_CONTAINER_PRIORITY";

/// Name of a container, its priority, and the place of the variable that sets the priority.
type Priority<'a> = (&'a str, i64, Place);

/// Adds an annotation to `template` that declares the order of OpenKruise, and removes OpenKruise's settings. Returns
/// `None` if the template has no such settings. Does not change a template that already declares an order. On failure,
/// returns all findings. The caller must then leave the template unchanged. The caller injects the result.
pub fn migrate_kruise(template: &Value) -> Result<Option<Injected>, Vec<Finding>> {
    let mut findings = Vec::new();
    let spec = Spec::read(template, &mut findings);
    let annotation = annotation_place(PRIORITY_ANNOTATION);
    let launch = annotation.of(template).map(|value| value.as_str().unwrap_or_default());
    let priorities = priorities(&spec)?;
    if launch.is_none() && priorities.is_empty() {
        return Ok(None);
    }
    if is_declared(template) {
        let what = "the template already declares an order for podgate, so --from has no effect on it";
        let at = Place::metadata("annotations");
        let note =
            Finding::note("declared-already", at, what).fix("to migrate it again, remove podgate's annotations first");
        return Ok(Some(Injected { findings: vec![note], ..Injected::unchanged(template) }));
    }
    if has_errors(&findings) {
        return Err(findings);
    }
    if let Some(other) = launch.filter(|launch| *launch != "Ordered") {
        let what = format!("{} is not a launch priority that OpenKruise supports", quoted(other));
        return Err(vec![invalid(&annotation, what, "write Ordered, or remove the annotation")]);
    }
    let mut steps: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for (own, before) in spec.containers.iter().zip(0..) {
        let own_priority = || priorities.iter().find(|(name, ..)| *name == own.name).map_or(0, |one| one.1);
        steps.entry(if launch.is_some() { -before } else { own_priority() }).or_default().push(own.name);
    }
    let order: Vec<String> = steps.into_values().rev().map(|step| step.join(" & ")).collect();
    let mut editor = Editor::new(template.clone());
    editor.annotate(keys::ORDER, &order.join(", "))?;
    // Remove OpenKruise's settings, so that only podgate holds the containers back. Remove the last variable first, so
    // that the indices of the others remain valid.
    for at in launch.map(|_| &annotation).into_iter().chain(priorities.iter().rev().map(|(.., at)| at)) {
        editor.edit(at.clone(), Op::Remove)?;
    }
    let (value, edits) = editor.finish();
    let how = match launch {
        Some(_) => format!(
            "`{PRIORITY_ANNOTATION}: Ordered` starts the containers in list order; podgate removes the annotation and \
             every {PRIORITY_VARIABLE}"
        ),
        None => format!(
            "each value of {PRIORITY_VARIABLE} (0 if unset) becomes a step, highest first; podgate removes the variables"
        ),
    };
    let difference = "OpenKruise holds a container back until all containers with a higher priority are ready, but not after a \
                      restart; podgate's gate also waits after a restart";
    let note = |what: String| Finding::note("migrated", Place::root().to("metadata"), what);
    findings.extend([note(how), note(difference.to_owned())]);
    Ok(Some(Injected { value, edits, findings, ..Injected::default() }))
}

fn priorities<'a>(spec: &Spec<'a>) -> Result<Vec<Priority<'a>>, Finding> {
    let mut found = Vec::new();
    for own in &spec.containers {
        let list = items_of(own.value, "env").enumerate();
        for (index, variable) in list.filter(|(_, variable)| variable["name"] == PRIORITY_VARIABLE) {
            let at = own.place().to("env").to(index);
            let text = variable["value"].as_str().unwrap_or_default();
            // OpenKruise parses the value with Go's Atoi and rejects the smallest 32-bit integer.
            let priority = text.parse().ok().filter(|priority| (-2_147_483_647..=2_147_483_647).contains(priority));
            let fix = "write a whole number between -2147483647 and 2147483647, in quotes";
            let priority = priority.ok_or_else(|| invalid(&at, format!("{} is not a priority", quoted(text)), fix))?;
            found.push((own.name, priority, at));
        }
    }
    Ok(found)
}

fn invalid(at: &Place, what: String, fix: &str) -> Finding {
    Finding::error("nothing-to-migrate", at.clone(), what).fix(fix)
}

//! A list of Tekton's steps (<https://tekton.dev/docs/pipelines/tasks/#defining-steps>): each after the one before has succeeded.

use super::migration::Migration;
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use crate::order::edit::Place;
use serde_json::Value;

pub(super) fn migrate(file: Option<&Value>, sheet: &mut Migration<'_>) {
    let root = || Place::root().to("metadata");
    let mut steps: Vec<(String, &str)> = Vec::new();
    match file {
        None => steps.extend(sheet.spec.containers.iter().map(|own| (own.name.to_owned(), "Completed"))),
        Some(file) => {
            let list = [Some(file), file.get("steps"), file.get("spec").and_then(|spec| spec.get("steps"))];
            let Some(list) = list.into_iter().flatten().find_map(Value::as_array) else {
                return sheet.add_error(root(), "there is no list of steps", "name a Task, or a list of steps");
            };
            for (number, step) in list.iter().enumerate() {
                let name = step.get("name").and_then(Value::as_str).or_else(|| step.as_str());
                let name = name.map_or_else(|| format!("unnamed-{number}"), str::to_owned);
                let found = sheet.find_container(&name).or_else(|| sheet.find_container(&format!("step-{name}")));
                let Some(container) = found else {
                    let what = format!("the step {} is no container of this Pod", quoted(&name));
                    sheet.add_error(root(), what, "give the container the step's name, or that with step- before it");
                    continue;
                };
                if steps.iter().any(|(seen, _)| *seen == container) {
                    let what = format!("two steps are the container {container}");
                    sheet.add_error(root(), what, "give each a name of its own");
                    continue;
                }
                // With `continue`, what follows runs whatever became of it.
                let is_needed = step.get("onError").and_then(Value::as_str) != Some("continue");
                let ends = if is_needed { "Completed" } else { "Exited" };
                let limits = "podgate's own time limits are for the wait; for the command, --command-timeout by hand";
                for (field, fix) in [
                    ("timeout", limits),
                    ("when", "let the command look for itself"),
                    ("stdoutConfig", "--stdout FILE by hand"),
                    ("stderrConfig", "--stderr FILE by hand"),
                ] {
                    if step.get(field).is_some() {
                        sheet.warn_not_migrated(
                            format!("{field} of the step {} is not carried over", quoted(&name)),
                            fix,
                        );
                    }
                }
                steps.push((container, ends));
            }
        }
    }
    if steps.len() < 2 {
        return sheet.add_error(root(), "one step alone has no order", "leave --from tekton away");
    }
    let last = steps.len() - 1;
    let written = steps
        .iter()
        .enumerate()
        .map(|(number, (name, ends))| vec![if number < last { format!("{name}={ends}") } else { name.clone() }]);
    sheet.write_order(&written.collect::<Vec<_>>());
    // A step that fails lets those after it skip.
    sheet.annotate(keys::FAIL_FAST, "true");
    sheet.note_migrated(format!("{} steps: each runs when the one before has succeeded", steps.len()));
    if !matches!(sheet.spec.value.get("restartPolicy").and_then(Value::as_str), Some("Never" | "OnFailure")) {
        sheet.warn_not_migrated(
            "steps run once, and this Pod starts each of its containers again",
            "write restartPolicy: Never",
        );
    }
    sheet.note_migrated(
        "a step that has failed for good, or whose image can't be pulled, ends those that wait for it, at once",
    );
}

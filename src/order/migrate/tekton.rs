//! Migrates Tekton steps (<https://tekton.dev/docs/pipelines/tasks/#defining-steps>), which run one after another.

use super::migration::Migration;
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use crate::order::edit::Place;
use serde_json::Value;

pub(super) fn migrate(file: Option<&Value>, migration: &mut Migration<'_>) {
    let root = || Place::root().to("metadata");
    let mut steps: Vec<(String, &str)> = Vec::new();
    match file {
        None => steps.extend(migration.spec.containers.iter().map(|own| (own.name.to_owned(), "Completed"))),
        Some(file) => {
            let list = [Some(file), file.get("steps"), file.get("spec").and_then(|spec| spec.get("steps"))];
            let Some(list) = list.into_iter().flatten().find_map(Value::as_array) else {
                return migration.add_error(root(), "there is no list of steps", "pass a Task or a list of steps");
            };
            for (number, step) in list.iter().enumerate() {
                let name = step.get("name").and_then(Value::as_str).or_else(|| step.as_str());
                let name = name.map_or_else(|| format!("unnamed-{number}"), str::to_owned);
                let found =
                    migration.find_container(&name).or_else(|| migration.find_container(&format!("step-{name}")));
                let Some(container) = found else {
                    let what = format!("the step {} has no container in this Pod", quoted(&name));
                    migration.add_error(root(), what, "name the container like the step, or step-STEP");
                    continue;
                };
                if steps.iter().any(|(seen, _)| *seen == container) {
                    let what = format!("two steps match the container {container}");
                    migration.add_error(root(), what, "give each step its own name");
                    continue;
                }
                // With `onError: continue`, the next step runs even if this step fails.
                let is_needed = step.get("onError").and_then(Value::as_str) != Some("continue");
                let ends = if is_needed { "Completed" } else { "Exited" };
                let limits = "add --command-timeout to its gate by hand; podgate.io/timeout limits the wait only";
                for (field, fix) in [
                    ("timeout", limits),
                    ("when", "check the condition in the command"),
                    ("stdoutConfig", "add --stdout FILE to its gate by hand"),
                    ("stderrConfig", "add --stderr FILE to its gate by hand"),
                ] {
                    if step.get(field).is_some() {
                        migration
                            .warn_not_migrated(format!("{field} of the step {} is not migrated", quoted(&name)), fix);
                    }
                }
                steps.push((container, ends));
            }
        }
    }
    if steps.len() < 2 {
        return migration.add_error(root(), "a single step has no order", "remove --from tekton");
    }
    let last = steps.len() - 1;
    let written = steps
        .iter()
        .enumerate()
        .map(|(number, (name, ends))| vec![if number < last { format!("{name}={ends}") } else { name.clone() }]);
    migration.write_order(&written.collect::<Vec<_>>());
    // If a step fails, later steps must fail at once instead of waiting for the failed step.
    migration.annotate(keys::FAIL_FAST, "true");
    migration.note_migrated(format!("{} steps: each runs after the previous one has succeeded", steps.len()));
    if !matches!(migration.spec.value.get("restartPolicy").and_then(Value::as_str), Some("Never" | "OnFailure")) {
        migration
            .warn_not_migrated("steps run once, but this Pod restarts its containers", "write restartPolicy: Never");
    }
    migration.note_migrated(
        "if a step fails for good or its image cannot be pulled, the steps that wait for it fail at once",
    );
}

//! Migrates Tekton steps (<https://tekton.dev/docs/pipelines/tasks/#defining-steps>), which run one after another.

use super::migration::Migration;
use crate::order::declare::grammar::quoted;
use crate::order::declare::keys;
use serde_json::Value;

pub(super) fn migrate(file: Option<&Value>, migration: &mut Migration<'_>) {
    let mut steps: Vec<(String, &str)> = Vec::new();
    let Some(file) = file else {
        steps.extend(migration.spec.containers.iter().map(|own| (own.name.to_owned(), "Completed")));
        return write(&steps, migration);
    };
    let Some(list) = [file, &file["steps"], &file["spec"]["steps"]].into_iter().find_map(Value::as_array) else {
        return migration.reject("there is no list of steps", "pass a Task or a list of steps");
    };
    for (number, step) in list.iter().enumerate() {
        let name = step["name"].as_str().or_else(|| step.as_str());
        let name = name.map_or_else(|| format!("unnamed-{number}"), str::to_owned);
        let found = migration.find_container(&name).or_else(|| migration.find_container(&format!("step-{name}")));
        let name = quoted(&name);
        let Some(container) = found else {
            let what = format!("the step {name} has no container in this Pod");
            migration.reject(what, "name the container like the step, or step-STEP");
            continue;
        };
        if steps.iter().any(|(seen, _)| *seen == container) {
            migration.reject(format!("two steps match the container {container}"), "give each step its own name");
            continue;
        }
        let limits = "add --command-timeout to the injected gate; later injections keep it, and podgate.io/timeout limits the wait only";
        for (field, fix) in [
            ("timeout", limits),
            ("when", "check the condition in the command"),
            ("stdoutConfig", "write the file in the command"),
            ("stderrConfig", "write the file in the command"),
        ] {
            if step.get(field).is_some() {
                migration.warn_not_migrated(format!("{field} of the step {name} is not migrated"), fix);
            }
        }
        // With `onError: continue`, the next step runs even if this step fails.
        steps.push((container, if step["onError"] == "continue" { "Exited" } else { "Completed" }));
    }
    write(&steps, migration);
}

/// Writes the order of `steps`: containers, each with the state for which the next one waits.
fn write(steps: &[(String, &str)], migration: &mut Migration<'_>) {
    let Some(((last, _), rest)) = steps.split_last().filter(|(_, rest)| !rest.is_empty()) else {
        return migration.reject("a single step has no order", "remove --from tekton");
    };
    let written = rest.iter().map(|(name, ends)| vec![format!("{name}={ends}")]).chain([vec![last.clone()]]);
    migration.write_order(&written.collect::<Vec<_>>());
    // If a step fails, later steps must fail at once instead of waiting for the failed step.
    migration.annotate(keys::FAIL_FAST, "true");
    migration.note_migrated(format!("{} steps: each runs after the previous one has succeeded", steps.len()));
    if !migration.spec.runs_to_completion() {
        migration
            .warn_not_migrated("steps run once, but this Pod restarts its containers", "write restartPolicy: Never");
    }
    migration.note_migrated(
        "if a step fails for good or its image cannot be pulled, the steps that wait for it fail at once",
    );
}

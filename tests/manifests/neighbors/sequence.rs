//! Simulates a cluster: podgate's webhook, then the other product's webhook, then podgate's webhook again.

use super::{CASES, Case, check, container, lines, options, pod, webhook};
use podgate::order::inject::{inject, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

fn items(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|items| items.iter().all(|item| item["name"].is_string()))
}

/// Applies the product's changes, the difference between `before` and `after`, to `found`. Keeps values that podgate
/// has changed. Adds a list's new items at their place: before the first known item, or at the end.
fn merge(before: &Value, after: &Value, found: &mut Value) {
    if before == after {
        return;
    }
    if let (Some(old), Some(new), Some(_)) = (items(before), items(after), items(found)) {
        let found = found.as_array_mut().expect("a list");
        let mut first = 0;
        for (at, item) in new.iter().enumerate() {
            let is_same = |other: &&Value| other["name"] == item["name"];
            match (old.iter().find(is_same), found.iter_mut().find(|other| other["name"] == item["name"])) {
                (Some(before), Some(found)) => merge(before, item, found),
                (None, None) if new[at..].iter().any(|next| old.iter().any(|old| old["name"] == next["name"])) => {
                    found.insert(first, item.clone());
                    first += 1;
                }
                (None, None) => found.push(item.clone()),
                other => panic!("unexpected item {other:?}"),
            }
        }
    } else if let (Some(old), Some(new), true) = (before.as_object(), after.as_object(), found.is_object()) {
        let found = found.as_object_mut().expect("an object");
        found.retain(|key, value| new.contains_key(key) || old.get(key) != Some(value));
        for (key, value) in new {
            match (old.get(key), found.get_mut(key)) {
                (Some(old), Some(found)) => merge(old, value, found),
                (None, Some(found)) if value.is_array() => merge(&json!([]), value, found),
                (None, None) => _ = found.insert(key.clone(), value.clone()),
                // Podgate has removed the field, or has written it before the product does.
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
    } else if found == before {
        *found = after.clone();
    }
}

/// Moves the whole command behind `/vault/vault-env`, as bank-vaults does.
fn move_command(container: &mut Value) {
    let words = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let args = [words("command"), words("args")].concat();
    container["command"] = json!(["/vault/vault-env"]);
    container["args"] = json!(args);
}

/// Returns podgate's output for the Pod before the product's injection, with the product's changes.
pub(crate) fn product_changes(case: &Case, mode: &str) -> Value {
    let ordered = |name| pod(name, &[("podgate.io/order", case.order), ("podgate.io/mode", mode)]);
    let (before, mut after) = (ordered(case.before), ordered(case.after));
    let mut pod = webhook(&before).value;
    let mut moved = Vec::new();
    for one in after["spec"]["containers"].as_array_mut().expect("containers") {
        if one["command"][0] == "/vault/vault-env" {
            moved.push(one["name"].clone());
            let old = container(&before, one["name"].as_str().expect("a name"));
            (one["command"], one["args"]) = (old["command"].clone(), old["args"].clone());
        }
    }
    merge(&before, &after, &mut pod);
    let containers = pod["spec"]["containers"].as_array_mut().expect("containers").iter_mut();
    containers.filter(|one| moved.contains(&one["name"])).for_each(move_command);
    pod
}

/// Runs the sequence. Checks that podgate's third call changes nothing, and that `uninject` leaves the Pod that the
/// product alone would have made.
pub(crate) fn run(case: &Case, mode: &str) {
    let what = format!("{} in mode {mode}", case.after);
    let changed = product_changes(case, mode);
    let again = webhook(&changed);
    assert!(webhook(&again.value).edits.is_empty(), "{what}: a third call must change nothing");
    for injected in [&changed, &again.value] {
        let mut back = uninject(injected).unwrap_or_else(|found| panic!("{what}: {}", lines(&found))).value;
        let mut expected = pod(case.after, &[("podgate.io/order", case.order), ("podgate.io/mode", mode)]);
        for one in expected["spec"]["containers"].as_array_mut().expect("containers") {
            // Istio does not see a startupProbe that podgate has replaced, so Istio does not rewrite that probe.
            if mode == "auto" && one["startupProbe"]["httpGet"]["port"] == 15020 {
                let name = one["name"].as_str().expect("a name");
                one["startupProbe"] = container(&pod(case.before, &[]), name)["startupProbe"].clone();
            }
        }
        // Ignore this annotation. If podgate moves the first container, podgate writes the annotation before the
        // product does, and `uninject` removes it.
        for pod in [&mut back, &mut expected] {
            pod["metadata"]["annotations"].as_object_mut().expect("annotations").remove(DEFAULT_CONTAINER);
        }
        assert_eq!(back, expected, "{what}: uninject must leave the product's changes");
    }
    let (code, findings) = check(&again.value);
    assert_eq!((code, findings.len()), (Some(0), case.rules.len()), "{what}: {findings:#?}");
}

#[test]
fn podgate_is_stable_after_each_product() {
    for case in CASES {
        run(case, "auto");
        run(case, "post-start");
    }
}

/// The gate waits before vault-env reads the secrets.
#[test]
fn gate_returns_to_its_place_before_vault_env() {
    let case = CASES.iter().find(|case| case.after == "bank-vaults.after").expect("a case");
    let changed = product_changes(case, "auto");
    let app = container(&changed, "app");
    assert_eq!((&app["command"], &app["args"][1]), (&json!(["/vault/vault-env"]), &json!("entrypoint")));
    let again = webhook(&changed).value;
    let app = container(&again, "app");
    let words = app["command"].as_array().expect("a command");
    assert_eq!(words[1], "entrypoint");
    assert_eq!(words[words.len() - 2..], [json!("--"), json!("/vault/vault-env")]);
    assert_eq!(app["args"], json!(["/app", "--serve", "--listen=:8080"]));
}

/// With `mutate-probes`, bank-vaults also puts `vault-env` in front of the command of podgate's startupProbe.
#[test]
fn startup_probe_behind_vault_env_is_repaired() {
    let case = CASES.iter().find(|case| case.after == "bank-vaults.after").expect("a case");
    let mut changed = product_changes(case, "auto");
    let expected = container(&changed, "app")["startupProbe"].clone();
    let containers = changed["spec"]["containers"].as_array_mut().expect("containers");
    let app = containers.iter_mut().find(|one| one["name"] == "app").expect("app");
    let words = app["startupProbe"]["exec"]["command"].as_array_mut().expect("a command");
    words.insert(0, json!("/vault/vault-env"));
    let again = webhook(&changed).value;
    assert_eq!(container(&again, "app")["startupProbe"], expected);
    for injected in [&changed, &again] {
        let back = uninject(injected).expect("the original").value;
        assert_eq!(container(&back, "app")["startupProbe"], container(&pod(case.before, &[]), "app")["startupProbe"]);
    }
}

/// A webhook that does not know `fileKeyRef` (Kubernetes 1.34) removes it from podgate's variable in hold mode.
#[test]
fn pod_without_the_field_of_hold_mode_is_denied() {
    let mut before = pod("opentelemetry.before", &[("podgate.io/order", "db, app")]);
    before["spec"]["containers"][0].as_object_mut().expect("app").remove("command");
    let mut held = webhook(&before).value;
    let variable = &mut held["spec"]["containers"][0]["env"][0];
    assert!(variable["valueFrom"]["fileKeyRef"].is_object(), "{variable}");
    variable["valueFrom"] = json!({});
    let found = inject(&held, &options(), &KnownFacts::default()).expect_err("a denial");
    assert_eq!(found[0].rule, "injected-changed", "{}", lines(&found));
}

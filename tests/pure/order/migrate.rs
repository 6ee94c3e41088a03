use podgate::order::edit::apply;
use podgate::order::finding::Finding;
use podgate::order::inject::Injected;
use podgate::order::migrate::migrate_kruise;
use podgate::order::plan::{KnownFacts, plan};
use serde_json::{Value, json};

fn pod(names: &[&str]) -> Value {
    let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "command": ["x"]})).collect();
    json!({"spec": {"containers": containers, "restartPolicy": "Never"}})
}

/// Migrates `template`. Checks that the edits produce the new template and that the new template has a plan. Returns
/// the new annotations and the result.
fn migrated(template: &Value) -> (Value, Injected) {
    let done = migrate_kruise(template).unwrap_or_else(|findings| panic!("{findings:#?}")).expect("an order");
    let mut by_edits = template.clone();
    for edit in &done.edits {
        apply(&mut by_edits, edit).unwrap();
    }
    assert_eq!(by_edits, done.value);
    assert!(plan(&done.value, &KnownFacts::default()).is_ok());
    (done.value["metadata"]["annotations"].clone(), done)
}

fn rule_messages(findings: &[Finding], rule: &str) -> String {
    let of_rule = findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(Finding::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn kruise_ordered_means_the_order_of_the_list() {
    let mut template = pod(&["a", "b", "c"]);
    template["metadata"] = json!({"annotations": {"apps.kruise.io/container-launch-priority": "Ordered", "x": "y"}});
    template["spec"]["containers"][1]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"}]);
    let (annotations, done) = migrated(&template);
    assert_eq!(annotations, json!({"x": "y", "podgate.io/order": "a, b, c"}));
    assert_eq!(done.value["spec"]["containers"][1]["env"], json!([{"name": "A", "value": "1"}]));
}

#[test]
fn kruise_priorities_become_steps_highest_first() {
    let mut template = pod(&["main", "sidecar", "log", "last"]);
    for (at, priority) in [(1, "10"), (3, "-1")] {
        template["spec"]["containers"][at]["env"] = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": priority}]);
    }
    let (annotations, done) = migrated(&template);
    assert_eq!(annotations, json!({"podgate.io/order": "sidecar, main & log, last"}));
    assert!(rule_messages(&done.findings, "migrated").contains("highest first"));
}

#[test]
fn kruise_rejects_templates_without_a_valid_order() {
    let rejected = |template: &Value| rule_messages(&migrate_kruise(template).unwrap_err(), "nothing-to-migrate");
    assert!(migrate_kruise(&pod(&["a"])).unwrap().is_none());
    let mut template = pod(&["a", "b"]);
    template["spec"]["containers"][0]["env"] = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "high"}]);
    assert!(rejected(&template).contains("\"high\" is not a priority"));
    template["spec"]["containers"][0]["env"][0]["value"] = json!("5");
    template["metadata"] = json!({"annotations": {"podgate.io/order": "a, b"}});
    let kept = migrate_kruise(&template).unwrap().expect("a note");
    assert_eq!((kept.findings[0].rule, kept.edits.len()), ("declared-already", 0));
}

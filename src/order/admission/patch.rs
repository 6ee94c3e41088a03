//! Converts edits to a JSON Patch (RFC 6902), the only patch type that an admission webhook can return.

use crate::order::edit::{Edit, Op, PathSegment, Place};
use serde::Serialize;
use serde_json::Value;

/// One operation of a patch, as defined by RFC 6902.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[allow(missing_docs, reason = "RFC 6902 defines the operations")]
pub enum Operation<'a> {
    Test { path: String, value: &'a Value },
    Add { path: String, value: &'a Value },
    Replace { path: String, value: &'a Value },
    Remove { path: String },
    Move { from: String, path: String },
}

/// Converts `edits` of the Pod `before` to a patch, with one operation per edit. The patch begins with a `test` operation for the name of every container in the edited lists. The patch therefore fails on a
/// Pod with other containers.
pub fn json_patch<'a>(before: &'a Value, edits: &'a [Edit]) -> Vec<Operation<'a>> {
    let mut operations = name_tests(before, edits);
    operations.extend(edits.iter().map(to_operation));
    operations
}

fn to_operation(edit: &Edit) -> Operation<'_> {
    let path = edit.at.pointer();
    let in_list = matches!(edit.at.0.last(), Some(PathSegment::Index(_)));
    match &edit.op {
        // In an object, `add` replaces a field. In a list, `add` inserts an item, so an item needs `replace`.
        Op::Set(value) if in_list || path.is_empty() => Operation::Replace { path, value },
        Op::Set(value) | Op::Insert(value) => Operation::Add { path, value },
        Op::Remove => Operation::Remove { path },
        Op::Move(index) => {
            let mut to = edit.at.clone();
            to.0.pop();
            Operation::Move { from: path, path: to.to(*index).pointer() }
        }
    }
}

fn name_tests<'a>(before: &'a Value, edits: &[Edit]) -> Vec<Operation<'a>> {
    let mut tests = Vec::new();
    for list in ["initContainers", "containers"] {
        let list = Place::root().to("spec").to(list);
        let edited = |edit: &Edit| edit.at.0.len() > list.0.len() && edit.at.0.starts_with(&list.0);
        if !edits.iter().any(edited) {
            continue;
        }
        let containers = list.of(before).and_then(Value::as_array).into_iter().flatten();
        for (index, container) in containers.enumerate() {
            if let Some(value) = container.get("name") {
                tests.push(Operation::Test { path: list.to(index).to("name").pointer(), value });
            }
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::edit::Editor;
    use serde_json::json;

    fn at(steps: &[&str]) -> Place {
        Place(steps.iter().map(|s| s.parse().map_or_else(|_| PathSegment::from(*s), PathSegment::Index)).collect())
    }

    /// Applies the patch with an independent RFC 6902 implementation.
    fn apply_patch(before: &Value, operations: &[Operation<'_>]) -> Result<Value, String> {
        let patch: json_patch::Patch = serde_json::from_value(json!(operations)).map_err(|error| error.to_string())?;
        let mut value = before.clone();
        json_patch::patch(&mut value, &patch).map_err(|error| error.to_string())?;
        Ok(value)
    }

    #[test]
    fn patch_tests_names_and_has_one_operation_per_edit() {
        let before = json!({
            "metadata": {"annotations": {"podgate.io/order": "a, b"}},
            "spec": {"containers": [{"name": "b", "command": ["x"]}, {"name": "a"}]}
        });
        let mut editor = Editor::new(before.clone());
        editor.edit(at(&["metadata", "annotations", "podgate.io/injected"]), Op::Set(json!("1"))).unwrap();
        editor.edit(at(&["spec", "initContainers"]), Op::Set(json!([{"name": "podgate"}]))).unwrap();
        editor.edit(at(&["spec", "containers", "0"]), Op::Move(1)).unwrap();
        editor.edit(at(&["spec", "containers", "1", "command", "0"]), Op::Insert(json!("gate"))).unwrap();
        editor.edit(at(&["spec", "containers", "1", "command", "1"]), Op::Set(json!("y"))).unwrap();
        editor.edit(at(&["metadata", "annotations", "podgate.io/order"]), Op::Remove).unwrap();
        let (after, edits) = editor.finish();
        let operations = json_patch(&before, &edits);
        assert_eq!(
            json!(operations),
            json!([
                {"op": "test", "path": "/spec/containers/0/name", "value": "b"},
                {"op": "test", "path": "/spec/containers/1/name", "value": "a"},
                {"op": "add", "path": "/metadata/annotations/podgate.io~1injected", "value": "1"},
                {"op": "add", "path": "/spec/initContainers", "value": [{"name": "podgate"}]},
                {"op": "move", "from": "/spec/containers/0", "path": "/spec/containers/1"},
                {"op": "add", "path": "/spec/containers/1/command/0", "value": "gate"},
                {"op": "replace", "path": "/spec/containers/1/command/1", "value": "y"},
                {"op": "remove", "path": "/metadata/annotations/podgate.io~1order"},
            ])
        );
        assert_eq!(apply_patch(&before, &operations), Ok(after));
        let mut other = before.clone();
        other["spec"]["containers"][0]["name"] = json!("c");
        let error = apply_patch(&other, &operations).unwrap_err();
        assert!(error.contains("operation '/0' failed"), "the patch fails on another Pod: {error}");
    }

    #[test]
    fn no_edits_give_an_empty_patch() {
        assert_eq!(json_patch(&json!({"spec": {"containers": [{"name": "a"}]}}), &[]), []);
    }
}

use podgate::order::admission::json_patch;
use podgate::order::edit::Editor;
use podgate::order::edit::{Op, PathSegment, Place};
use serde_json::{Value, json};

fn at(steps: &[&str]) -> Place {
    Place(steps.iter().map(|s| s.parse().map_or_else(|_| PathSegment::from(*s), PathSegment::Index)).collect())
}

/// Applies the patch with an independent RFC 6902 implementation.
fn apply_patch(before: &Value, patch: Value) -> Result<Value, String> {
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| error.to_string())?;
    let mut value = before.clone();
    json_patch::patch(&mut value, &patch).map_err(|error| error.to_string())?;
    Ok(value)
}

#[test]
fn patch_has_one_operation_per_edit() {
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
    let operations = json_patch(edits);
    assert_eq!(
        operations,
        json!([
            {"op": "add", "path": "/metadata/annotations/podgate.io~1injected", "value": "1"},
            {"op": "add", "path": "/spec/initContainers", "value": [{"name": "podgate"}]},
            {"op": "move", "from": "/spec/containers/0", "path": "/spec/containers/1"},
            {"op": "add", "path": "/spec/containers/1/command/0", "value": "gate"},
            {"op": "replace", "path": "/spec/containers/1/command/1", "value": "y"},
            {"op": "remove", "path": "/metadata/annotations/podgate.io~1order"},
        ])
    );
    assert_eq!(apply_patch(&before, operations), Ok(after));
}

//! Converts edits to a JSON Patch (RFC 6902), the only patch type that an admission webhook can return.

use crate::order::edit::{Edit, Op, PathSegment, Place};
use serde::Serialize;
use serde_json::Value;

/// One operation of a patch, as defined by RFC 6902.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[expect(missing_docs, reason = "RFC 6902 defines the operations")]
pub enum Operation<'a> {
    Test { path: String, value: &'a Value },
    Add { path: String, value: &'a Value },
    Replace { path: String, value: &'a Value },
    Remove { path: String },
    Move { from: String, path: String },
}

/// Converts `edits` of the Pod `before` to a patch, with one operation per edit. The patch begins with a `test`
/// operation for the name of every container in the edited lists. The patch thus fails on a Pod with other containers.
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
        let list = Place::spec(list);
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

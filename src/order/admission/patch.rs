//! Converts edits to a JSON Patch (RFC 6902), the only patch type that an admission webhook can return.

use crate::order::edit::{Edit, Op, PathSegment};
use serde::Serialize;
use serde_json::Value;

/// One operation of a patch, as defined by RFC 6902.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[expect(missing_docs, reason = "RFC 6902 defines the operations")]
pub enum Operation<'a> {
    Add { path: String, value: &'a Value },
    Replace { path: String, value: &'a Value },
    Remove { path: String },
    Move { from: String, path: String },
}

/// Converts edits to a patch, with one operation per edit.
pub fn json_patch(edits: &[Edit]) -> Vec<Operation<'_>> {
    edits.iter().map(to_operation).collect()
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

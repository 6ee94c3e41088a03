//! Types for changes to a manifest. Callers write the changes as YAML, JSON or a JSON patch.

use crate::order::finding::Finding;
pub use crate::order::finding::{PathSegment, Place};
use serde_json::{Map, Value};
use std::fmt;

/// Maximum length of a Pod as JSON, of all changes by one injection, and of the webhook's patch, in bytes. Kubernetes
/// cannot store a much larger Pod: etcd rejects objects of more than 1.5 MiB.
pub const JSON_SIZE_MAX: usize = 1 << 20;

/// Operation on a field or on an item of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Adds or replaces a field, or replaces an item of a list.
    Set(Value),
    /// Inserts an item before the item at the place, or at the end of the list.
    Insert(Value),
    /// Removes a field or an item.
    Remove,
    /// Moves an item to this index of the same list. The index refers to the list without the moved item.
    Move(usize),
}

/// One change to a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// Place of the field or item to change.
    pub at: Place,
    /// Operation on the field or item.
    pub op: Op,
}

/// Returns the error for a place that does not exist or has another type.
pub(crate) fn mismatch(at: &Place) -> Finding {
    let what = format!("cannot edit {at}: it does not exist or has another type");
    Finding::error("wrong-type", at.clone(), what).fix("write the field as the Pod API defines it")
}

/// Returns the error for changes whose sum is too large.
pub(crate) fn edits_too_large() -> Finding {
    let what = format!("podgate would add more than {JSON_SIZE_MAX} bytes");
    Finding::error("template-too-large", Place::root().to("spec"), what)
        .fix("shorten the probes, hooks, commands and variables in the Pod")
}

/// Applies one change to `value`. If the edit does not match `value`, `value` remains unchanged.
pub fn apply(value: &mut Value, edit: &Edit) -> Result<(), Finding> {
    let mismatch = || mismatch(&edit.at);
    let Some((last, parents)) = edit.at.0.split_last() else {
        let Op::Set(new) = &edit.op else { return Err(mismatch()) };
        *value = new.clone();
        return Ok(());
    };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        PathSegment::Key(key) => value.get_mut(&**key),
        PathSegment::Index(index) => value.get_mut(*index),
    });
    let parent = parent.ok_or_else(mismatch)?;
    match (parent, last, &edit.op) {
        (Value::Object(fields), PathSegment::Key(key), Op::Set(new)) => _ = fields.insert(key.to_string(), new.clone()),
        // Unlike `Map::remove`, `retain` keeps the order of the other fields.
        (Value::Object(fields), PathSegment::Key(key), Op::Remove) if fields.contains_key(&**key) => {
            fields.retain(|name, _| **name != **key);
        }
        (Value::Array(items), PathSegment::Index(index), Op::Set(new)) if *index < items.len() => {
            items[*index] = new.clone()
        }
        (Value::Array(items), PathSegment::Index(index), Op::Insert(new)) if *index <= items.len() => {
            items.insert(*index, new.clone())
        }
        (Value::Array(items), PathSegment::Index(index), Op::Remove) if *index < items.len() => {
            items.remove(*index);
        }
        (Value::Array(items), PathSegment::Index(index), Op::Move(to)) if *index < items.len() && *to < items.len() => {
            let item = items.remove(*index);
            items.insert(*to, item);
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

/// Editor of one manifest, with a record of all changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Editor {
    value: Value,
    edits: Vec<Edit>,
    /// Length of all edits as JSON, in bytes.
    length: usize,
}

impl Editor {
    /// Creates an editor of `value`, without any recorded changes.
    pub fn new(value: Value) -> Editor {
        Editor { value, edits: Vec::new(), length: 0 }
    }

    /// Returns the manifest with all changes so far.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Applies and records one change. After an error, the manifest remains unchanged.
    pub fn edit(&mut self, at: Place, op: Op) -> Result<(), Finding> {
        let edit = Edit { at, op };
        let value = if let Op::Set(value) | Op::Insert(value) = &edit.op { json_length(value) } else { 0 };
        self.length += value + edit.at.pointer().len();
        if self.length > JSON_SIZE_MAX {
            return Err(edits_too_large());
        }
        apply(&mut self.value, &edit)?;
        self.edits.push(edit);
        Ok(())
    }

    /// Sets an annotation of a template. Adds the map of annotations if there is none.
    pub fn annotate(&mut self, key: &str, text: &str) -> Result<(), Finding> {
        let annotations = Place::metadata("annotations");
        self.add_object_if_absent(&Place::root().to("metadata"))?;
        self.add_object_if_absent(&annotations)?;
        self.edit(annotations.to(key), Op::Set(text.into()))
    }

    /// Creates an empty object at `place` if the field is absent or null.
    pub fn add_object_if_absent(&mut self, place: &Place) -> Result<(), Finding> {
        match place.of(&self.value) {
            None | Some(Value::Null) => self.edit(place.clone(), Op::Set(Value::Object(Map::new()))),
            Some(_) => Ok(()),
        }
    }

    /// Reorders a list. `wanted` lists the current indices of the items in the new order.
    pub fn reorder(&mut self, list: &Place, wanted: &[usize]) -> Result<(), Finding> {
        let mut now: Vec<usize> = (0..wanted.len()).collect();
        for (to, item) in wanted.iter().enumerate() {
            let from = now.iter().position(|at| at == item).filter(|from| *from != to);
            if let Some(from) = from {
                now.remove(from);
                now.insert(to, *item);
                self.edit(list.to(from), Op::Move(to))?;
            }
        }
        Ok(())
    }

    /// Returns the changed manifest and the recorded changes, oldest first.
    pub fn finish(self) -> (Value, Vec<Edit>) {
        (self.value, self.edits)
    }
}

/// Returns the length of `value` as JSON, in bytes. Needs no memory for the JSON.
pub fn json_length(value: &Value) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    let _ = fmt::write(&mut length, format_args!("{value}"));
    length.0
}

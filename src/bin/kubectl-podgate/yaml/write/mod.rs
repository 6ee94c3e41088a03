//! Writes edits into a document's text so that nothing else changes, and believes no result that it has not read again.
//!
//! Each edit is made by whole lines ([`block`]) or between brackets ([`flow`]), as a person would; where the document is written
//! in a way that these can't be sure of, by a lossless syntax tree ([`library`]). In the end the text is read as Kubernetes reads
//! it, and compared with the value that was meant. If they differ, everything is done once more, with that comparison behind
//! every single step; if they still do, the document stays as it was.

mod aliases;
mod block;
mod flow;
mod items;
mod library;
mod render;
mod text;

use super::spans::{Kind, Tree};
use super::{Document, read};
use block::Sheet;
use flow::{Collection, Element};
use podgate::order::edit::{Edit, Op, Place, Step, apply};
use render::Style;
use serde_json::Value;

/// Why edits can't be written: where, and what is in the way. Nothing has been changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) place: Place,
    pub(crate) what: String,
}

impl Document {
    /// The document's text with these edits; all else in it stays byte for byte.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn edited(&self, edits: &[Edit]) -> Result<String, Refused> {
        let mut meant = self.value.clone();
        for edit in edits {
            let misfit = |_| refused(&edit.at, "is not there, or is of another kind");
            apply(&mut meant, edit).map_err(misfit)?;
        }
        let edits = &folded(edits)[..];
        let is_meant = |text: &String| read(text, self.json).is_some_and(|value| value == meant);
        if let Some(text) = items::edited(self, edits).filter(is_meant) {
            return Ok(text);
        }
        let mut draft = Draft::new(self.text.clone(), self.value.clone(), self.json, false);
        if edits.iter().try_for_each(|edit| draft.make(edit)).is_ok() && is_meant(&draft.text) {
            return Ok(draft.text);
        }
        let mut draft = Draft::new(self.text.clone(), self.value.clone(), self.json, true);
        edits.iter().try_for_each(|edit| draft.make(edit))?;
        let different = || refused(&Place::root(), "can't be written so that it would be read as it is meant");
        Some(draft.text).filter(is_meant).ok_or_else(different)
    }
}

/// The same edits, fewer: what is done within a value that has just been put there is done to that value.
fn folded(edits: &[Edit]) -> Vec<Edit> {
    let mut folded: Vec<Edit> = Vec::with_capacity(edits.len());
    for edit in edits {
        if let Some(Edit { at, op: Op::Set(new) | Op::Insert(new) }) = folded.last_mut()
            && let Some(rest) = edit.at.0.strip_prefix(&at.0[..]).filter(|rest| !rest.is_empty())
        {
            let inner = Edit { at: Place(rest.to_vec()), op: edit.op.clone() };
            if apply(new, &inner).is_ok() {
                continue;
            }
        }
        folded.push(edit.clone());
    }
    folded
}

/// What Kubernetes reads in a text that we have written.
fn read(text: &str, json: bool) -> Option<Value> {
    if json { read::json(text).ok() } else { read::yaml(text).ok() }
}

fn refused(place: &Place, what: &str) -> Refused {
    Refused { place: place.clone(), what: what.to_owned() }
}

/// A document on its way to what is meant.
#[derive(Debug, Clone)]
struct Draft {
    text: String,
    value: Value,
    json: bool,
    /// Compare after every step, and try the next way if it went wrong.
    careful: bool,
    style: Style,
}

impl Draft {
    fn new(text: String, value: Value, json: bool, careful: bool) -> Draft {
        let style = Tree::read(&text).map_or_else(|| style(&text, None), |tree| style(&text, Some(&tree)));
        Draft { text, value, json, careful, style }
    }

    /// Makes one edit, in the text and in the value.
    fn make(&mut self, edit: &Edit) -> Result<(), Refused> {
        let tree = self.clear(edit)?;
        let mut after = self.value.clone();
        apply(&mut after, edit).map_err(|_| refused(&edit.at, "is not there, or is of another kind"))?;
        self.value = after;
        self.write(&tree, edit)
    }

    /// Makes one edit in the text, whose tree this is; the value is as it will then be.
    fn write(&mut self, tree: &Tree, edit: &Edit) -> Result<(), Refused> {
        let own = by_hand(&self.text, tree, &self.style, self.json, edit);
        let right = |text: &String| !self.careful || read(text, self.json).is_some_and(|value| value == self.value);
        let written = own.filter(right).or_else(|| library::edit(&self.text, edit, &self.style).filter(right));
        let Some(text) = written else {
            let what =
                "is written in a way that can't be edited without a change elsewhere; write it in plain block style";
            return Err(refused(&edit.at, what));
        };
        self.text = text;
        Ok(())
    }

    fn tree(&self, place: &Place) -> Result<Tree, Refused> {
        Tree::read(&self.text).ok_or_else(|| refused(place, "stands in a document whose places can't be told"))
    }
}

/// The text after the edit; `None` where it is better left to [`library`].
fn by_hand(text: &str, tree: &Tree, style: &Style, json: bool, edit: &Edit) -> Option<String> {
    let (last, parents) = edit.at.0.split_last()?;
    let parent_place = Place(parents.to_vec());
    let parent = written(tree, parents)?;
    let sheet = Sheet { text, tree, style };
    // What holds one entry, or none, is written anew as a whole: `[]` becomes lines, and lines become `[]`.
    let whole = |value: Value| by_hand(text, tree, style, json, &Edit { at: parent_place.clone(), op: Op::Set(value) });
    match (&tree.node(parent).kind, last, &edit.op) {
        (Kind::Object { flow: true, entries }, Step::Key(key), op) => {
            let index = tree.entry(parent, key).and_then(|(key, _)| entries.iter().position(|(name, _)| *name == key));
            match op {
                Op::Set(value) if entries.is_empty() && !json && in_block(tree, parents) => {
                    whole(Value::Object([(key.clone(), value.clone())].into_iter().collect()))
                }
                Op::Set(value) => {
                    let collection = Collection::new(text, tree, parent, json)?;
                    let field = Element::Field(key, value);
                    match index {
                        Some(index) => collection.set(index, field),
                        None => Some(collection.insert(collection.len(), field)),
                    }
                }
                Op::Remove => Collection::new(text, tree, parent, json)?.remove(index?),
                _ => None,
            }
        }
        (Kind::List { flow: true, items }, Step::Index(index), op) => match op {
            Op::Insert(value) if items.is_empty() && !json && in_block(tree, parents) => {
                whole(Value::Array(vec![value.clone()]))
            }
            Op::Insert(value) => Some(Collection::new(text, tree, parent, json)?.insert(*index, Element::Item(value))),
            Op::Set(value) => Collection::new(text, tree, parent, json)?.set(*index, Element::Item(value)),
            Op::Remove => Collection::new(text, tree, parent, json)?.remove(*index),
            Op::Move(to) => Collection::new(text, tree, parent, json)?.shift(*index, *to),
        },
        (Kind::Object { flow: false, entries }, Step::Key(key), op) => match (tree.entry(parent, key), op) {
            (Some((key, old)), Op::Set(value)) => sheet.set_value(key, old, value),
            (None, Op::Set(value)) => sheet.add_field(parent, key, value),
            (Some(_), Op::Remove) if entries.len() == 1 => whole(Value::Object(serde_json::Map::new())),
            (Some((key, _)), Op::Remove) => sheet.remove_field(parent, key),
            _ => None,
        },
        (Kind::List { flow: false, items }, Step::Index(index), op) => match op {
            Op::Set(value) => sheet.set_item(parent, *index, value),
            Op::Insert(value) => sheet.add_item(parent, *index, value),
            Op::Remove if items.len() == 1 => whole(Value::Array(Vec::new())),
            Op::Remove => sheet.remove_item(parent, *index),
            Op::Move(to) => sheet.move_item(parent, *index, *to),
        },
        _ => None,
    }
}

/// The node at a place as it is written: not through aliases and merge keys.
fn written(tree: &Tree, steps: &[Step]) -> Option<usize> {
    steps.iter().try_fold(tree.root(), |node, step| match (step, &tree.node(node).kind) {
        (Step::Key(key), Kind::Object { .. }) => tree.entry(node, key).map(|(_, value)| value),
        (Step::Index(index), Kind::List { items, .. }) => items.get(*index).copied(),
        _ => None,
    })
}

/// Whether what is at this place stands directly in something in block style.
fn in_block(tree: &Tree, steps: &[Step]) -> bool {
    let outer = steps.split_last().and_then(|(_, outer)| written(tree, outer));
    outer.is_some_and(|outer| {
        matches!(tree.node(outer).kind, Kind::Object { flow: false, .. } | Kind::List { flow: false, .. })
    })
}

/// How a document is written: by the first example of each.
fn style(text: &str, tree: Option<&Tree>) -> Style {
    let mut style = Style { newline: if text.contains("\r\n") { "\r\n" } else { "\n" }, unit: 2, list: 0 };
    let Some(tree) = tree else { return style };
    let sheet = Sheet { text, tree, style: &style.clone() };
    let fields = || {
        tree.nodes().filter_map(|(_, node)| match &node.kind {
            Kind::Object { flow: false, entries } => Some(entries.iter().copied()),
            _ => None,
        })
    };
    let from_key =
        |key: usize, at: usize| text::column(text, at)?.checked_sub(text::column(text, tree.node(key).start)?);
    let unit = fields().flatten().find_map(|(key, value)| match &tree.node(value).kind {
        Kind::Object { flow: false, .. } => from_key(key, tree.node(value).content.start).filter(|unit| *unit > 0),
        _ => None,
    });
    let list = fields().flatten().find_map(|(key, value)| match &tree.node(value).kind {
        Kind::List { flow: false, items } => items.first().and_then(|item| from_key(key, sheet.dash(*item)?)),
        _ => None,
    });
    style.unit = unit.unwrap_or(style.unit);
    style.list = list.unwrap_or(style.list);
    style
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

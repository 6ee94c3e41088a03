//! Applies edits to a document's text. The rest of the text stays unchanged.
//!
//! 1. [`draft`] collects the edits together with the tree of the text.
//! 2. The splices of each changed collection are computed: of whole lines ([`block`]), or of text in brackets
//!    ([`flow`]). If the layout does not allow splices and the collection has no comments, the whole collection is
//!    rendered again.
//! 3. All splices are applied at once.
//! 4. The new text is parsed as Kubernetes does and compared with the intended value. If the two values differ, the
//!    edit fails.

mod block;
mod draft;
mod flow;
mod lines;
mod render;
mod splicer;

use super::spans::{NodeKind, Tree};
use super::{Document, parse};
use draft::Draft;
use podgate::order::edit::{Edit, Place, apply};
use podgate::order::finding::Finding;
use render::Style;
use splicer::Splicer;
use std::collections::BTreeMap;

impl Document {
    /// Returns the document's text with these edits. All other bytes stay the same. On failure, returns the place and the
    /// reason.
    pub(crate) fn edited(&self, edits: &[Edit]) -> Result<String, Finding> {
        let mut expected = self.value.clone();
        for edit in edits {
            apply(&mut expected, edit).map_err(|_| edit_error(&edit.at, "does not exist, or has another type"))?;
        }
        let Some(first) = edits.first().map(|edit| &edit.at) else { return Ok(self.text.clone()) };
        let no_tree = || edit_error(first, "is in a document whose values cannot be located");
        let tree = self.tree().ok_or_else(no_tree)?;
        let style = detect_style(&self.text, tree, self.is_json);
        // Splices of whole lines need a line break at the end of the last line too.
        let unterminated = !self.text.ends_with('\n');
        let text = format!("{}{}", self.text, if unterminated { style.newline } else { "" });
        let mut draft = Draft { text: &text, tree, value: &self.value, changed: BTreeMap::new() };
        edits.iter().try_for_each(|edit| draft.add_edit(edit))?;
        let splicer = Splicer { text: &text, tree, draft: &draft, style: &style };
        let splices = splicer.document_splices(&expected).map_err(|failed| {
            let message = "has a layout that cannot be edited without other changes; write it in plain block style";
            let place = draft.place_of(failed);
            edit_error(if place.0.is_empty() { first } else { &place }, message)
        })?;
        let new = splicer.apply_splices(0..text.len(), &splices);
        let stripped = |text: &str| text.strip_suffix(style.newline).filter(|_| unterminated).map(str::to_owned);
        let new = new.map(|new| stripped(&new).unwrap_or(new));
        let parse = if self.is_json { parse::json } else { parse::yaml };
        let is_expected = |text: &String| parse(text).is_ok_and(|value| value == expected);
        new.filter(is_expected)
            .ok_or_else(|| edit_error(first, "cannot be edited: the new text would not parse to the intended value"))
    }
}

fn edit_error(place: &Place, message: &str) -> Finding {
    let (what, fix) = message.split_once("; ").unwrap_or((message, "write it in plain block style"));
    Finding::error("not-editable", place.clone(), format!("{place} {what}")).fix(fix)
}

/// Detects a document's style. Takes each property of the style from its first occurrence.
fn detect_style(text: &str, tree: &Tree, json: bool) -> Style {
    let objects = || tree.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Object { flow: false }));
    let fields = || objects().flat_map(|node| &node.children).map(|(key, value)| (*key, &tree.nodes[*value]));
    let from_key =
        |key: Option<usize>, at| lines::column(text, at)?.checked_sub(lines::column(text, tree.nodes[key?].start)?);
    let unit = fields().find_map(|(key, value)| match value.kind {
        NodeKind::Object { flow: false } => from_key(key, value.content.start).filter(|unit| *unit > 0),
        _ => None,
    });
    let list = fields().find_map(|(key, value)| match value.kind {
        NodeKind::List { flow: false } => {
            from_key(key, lines::dash_position(text, &tree.nodes[value.children.first()?.1])?)
        }
        _ => None,
    });
    Style {
        is_json: json,
        spaced: text.contains("\": ") || text.contains("\" :") || !text.contains("\":"),
        newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
        indent: unit.unwrap_or(2),
        list_indent: list.unwrap_or(0),
    }
}

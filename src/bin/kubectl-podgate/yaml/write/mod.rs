//! Applies edits to a document's text. The rest of the text stays unchanged.
//!
//! [`DocumentEditor`] edits each template on its own if possible, otherwise the whole document, in these steps:
//!
//! 1. [`edited_tree`] collects the edits together with the tree of the text.
//! 2. The splices of each changed collection are computed. They replace whole lines ([`block`]) or text in brackets
//!    ([`flow`]). If the layout does not allow splices and the collection has no comments, the whole collection is
//!    rendered again.
//! 3. All splices are applied at once.
//! 4. The new text is parsed as Kubernetes does and compared with the intended value. If the two values differ, the
//!    edit fails.

mod block;
mod edited_tree;
mod flow;
mod lines;
mod render;
mod splicer;

pub(crate) use render::Style;

use super::spans::{NodeKind, Tree};
use super::{Document, SourceError, parse};
use edited_tree::EditedTree;
use podgate::order::edit::{Edit, Place, apply};
use podgate::order::finding::Finding;
use serde_json::Value;
use splicer::{Splice, Splicer, splice_inside};
use std::collections::BTreeMap;

/// Edits of a document, applied to one template at a time, because the edited value of a large List needs much memory.
pub(crate) struct DocumentEditor<'a> {
    document: &'a Document,
    style: Option<Style>,
    /// The new texts of the edited templates.
    splices: Vec<Splice>,
    /// Edits of templates that cannot be edited on their own, with places relative to the root.
    rest: Vec<Edit>,
}

impl<'a> DocumentEditor<'a> {
    pub(crate) fn new(document: &'a Document) -> DocumentEditor<'a> {
        DocumentEditor { document, style: None, splices: Vec::new(), rest: Vec::new() }
    }

    /// Adds the edits of the template at `at`, with places relative to `at`. `expected` is the edited template.
    pub(crate) fn add(&mut self, at: &Place, edits: Vec<Edit>, expected: &Value) {
        let edits: Vec<Edit> = edits.into_iter().map(|edit| Edit { at: at.join(&edit.at), ..edit }).collect();
        match self.edit_template(at, &edits, expected) {
            Some(splice) => self.splices.push(splice),
            None => self.rest.extend(edits),
        }
    }

    /// Edits one template. The new text must parse to `expected` even without the rest of the document.
    fn edit_template(&mut self, at: &Place, edits: &[Edit], expected: &Value) -> Option<Splice> {
        let Document { text, value, is_json, .. } = self.document;
        let tree = self.document.tree().filter(|tree| tree.aliases_of(0..usize::MAX).next().is_none())?;
        let id = tree.node_at(text, at)?;
        let node = &tree.nodes[id];
        let whole = match node.kind {
            NodeKind::Object { flow: true } if *is_json => node.content(),
            NodeKind::Object { flow: false } if lines::begins_line(text, node.start()) && text.ends_with('\n') => {
                // Include the blank lines below, because they can belong to a block scalar.
                let end = lines::next_line_start(text, node.content().end);
                let blank = text[end..].split_inclusive('\n').take_while(|line| line.trim().is_empty());
                lines::line_start(text, node.start())..end + blank.map(str::len).sum::<usize>()
            }
            _ => return None,
        };
        let mut edited_tree = EditedTree { text, tree, value, changed: BTreeMap::new() };
        edits.iter().try_for_each(|edit| edited_tree.add_edit(edit)).ok()?;
        let style = self.style.get_or_insert_with(|| detect_style(text, tree, *is_json));
        let splicer = Splicer { text, tree, edited_tree: &edited_tree, style };
        let splices = splicer.collection_splices(id, expected).ok().filter(|_| !splicer.loses_all_entries(id))?;
        let mut ranges = splices.iter().map(|(at, _)| at);
        let is_inside = ranges.all(|at| whole.start <= at.start && at.end <= whole.end);
        // A template can contain another one. Do not edit the same text twice.
        let follows = self.splices.last().is_none_or(|(last, _)| last.end <= whole.start);
        let new = splice_inside(text, whole.clone(), &splices).filter(|_| is_inside && follows)?;
        parse(&new, *is_json).is_ok_and(|value| value == *expected).then_some((whole, new))
    }

    /// Returns the document's text with the edits, like [`Document::edited`].
    pub(crate) fn finish(self) -> Result<String, Finding> {
        let Document { text, is_json, .. } = self.document;
        if self.splices.is_empty() {
            return self.document.edited(&self.rest);
        }
        let overlap = || edit_error(&Place::root(), "has Pod templates inside each other");
        let text = splice_inside(text, 0..text.len(), &self.splices).ok_or_else(overlap)?;
        if self.rest.is_empty() {
            return Ok(text);
        }
        let value = parse(&text, *is_json).unwrap_or_default();
        Document { text, value, is_json: *is_json, ..Document::default() }.edited(&self.rest)
    }
}

fn parse(text: &str, is_json: bool) -> Result<Value, SourceError> {
    if is_json { parse::json(text) } else { parse::yaml(text) }
}

impl Document {
    /// Returns the document's text with these edits. All other bytes stay the same. On failure, returns the place and
    /// the reason.
    pub(crate) fn edited(&self, edits: &[Edit]) -> Result<String, Finding> {
        let Some(first) = edits.first().map(|edit| &edit.at) else { return Ok(self.text.clone()) };
        let mut expected = self.value.clone();
        for edit in edits {
            apply(&mut expected, edit).map_err(|_| edit_error(&edit.at, "does not exist, or has another type"))?;
        }
        let no_tree = || edit_error(first, "is in a document whose values cannot be located");
        let tree = self.tree().ok_or_else(no_tree)?;
        let style = detect_style(&self.text, tree, self.is_json);
        // Splices of whole lines need a line break at the end of the last line too.
        let unterminated = !self.text.ends_with('\n');
        let text = format!("{}{}", self.text, if unterminated { style.newline } else { "" });
        let mut edited_tree = EditedTree { text: &text, tree, value: &self.value, changed: BTreeMap::new() };
        edits.iter().try_for_each(|edit| edited_tree.add_edit(edit))?;
        let splicer = Splicer { text: &text, tree, edited_tree: &edited_tree, style: &style };
        let splices = splicer.collection_splices(Tree::ROOT, &expected).map_err(|failed| {
            let message = "has a layout that cannot be edited without other changes; write it in plain block style";
            let place = edited_tree.old_place_of(failed);
            edit_error(if place.0.is_empty() { first } else { &place }, message)
        })?;
        let new = splice_inside(&text, 0..text.len(), &splices);
        let stripped = |text: &str| text.strip_suffix(style.newline).filter(|_| unterminated).map(str::to_owned);
        let new = new.map(|new| stripped(&new).unwrap_or(new));
        new.filter(|text: &String| parse(text, self.is_json).is_ok_and(|value| value == expected))
            .ok_or_else(|| edit_error(first, "cannot be edited: the new text would not parse to the intended value"))
    }
}

fn edit_error(place: &Place, message: &str) -> Finding {
    let (what, fix) = message.split_once("; ").unwrap_or((message, "write it in plain block style"));
    Finding::error("not-editable", place.clone(), format!("{place} {what}")).fix(fix)
}

/// Detects a document's style. Takes each property of the style from its first occurrence.
fn detect_style(text: &str, tree: &Tree, json: bool) -> Style {
    let is_block = |id: &usize| matches!(tree.nodes[*id].kind, NodeKind::Object { flow: false });
    let fields = || (0..tree.nodes.len()).filter(is_block).flat_map(|id| tree.children(id));
    let from_key =
        |key: Option<usize>, at| lines::column(text, at)?.checked_sub(lines::column(text, tree.nodes[key?].start())?);
    let unit = fields().find_map(|(key, value)| match tree.nodes[value].kind {
        NodeKind::Object { flow: false } => from_key(key, tree.nodes[value].content().start).filter(|unit| *unit > 0),
        _ => None,
    });
    let list = fields().find_map(|(key, value)| match tree.nodes[value].kind {
        NodeKind::List { flow: false } => {
            from_key(key, lines::dash_position(text, &tree.nodes[tree.child(value, 0)?.1])?)
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

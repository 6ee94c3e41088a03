//! Writes edits into a document's text so that nothing else changes, and believes no result that it has not read again.
//!
//! The edits are first collected beside the tree of the text ([`draft`]). Each collection that changes then says what takes the
//! place of which of its lines ([`block`]), or of what between its brackets ([`flow`]), and all of that is done at once. A collection
//! that can't be edited in this way is written again as a whole, unless it holds comments. In the end the text is read as Kubernetes
//! reads it, and compared with the value that was meant. If they differ, the document stays as it was.

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
use render::Style;
use splicer::Splicer;

/// Why edits can't be written: where, and what is in the way. Nothing has been changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditError {
    pub(crate) place: Place,
    pub(crate) message: String,
}

impl Document {
    /// The document's text with these edits; all else in it stays byte for byte.
    ///
    /// # Errors
    /// [`EditError`].
    pub(crate) fn edited(&self, edits: &[Edit]) -> Result<String, EditError> {
        let mut meant = self.value.clone();
        for edit in edits {
            apply(&mut meant, edit).map_err(|_| edit_error(&edit.at, "is not there, or is of another kind"))?;
        }
        let Some(first) = edits.first().map(|edit| &edit.at) else { return Ok(self.text.clone()) };
        let unknown = || edit_error(first, "stands in a document whose places can't be told");
        let tree = self.tree().ok_or_else(unknown)?;
        let style = detect_style(&self.text, tree, self.is_json);
        // Whole lines come and go more easily where the last one has its end too.
        let bare = !self.text.ends_with('\n');
        let text = format!("{}{}", self.text, if bare { style.newline } else { "" });
        let mut draft = Draft::new(&text, tree, &self.value);
        edits.iter().try_for_each(|edit| draft.add_edit(edit))?;
        let sheet = Splicer { text: &text, tree, draft: &draft, style: &style };
        let splices = sheet.document_splices(&meant).map_err(|stuck| {
            let what =
                "is written in a way that can't be edited without a change elsewhere; write it in plain block style";
            let place = draft.place_of(stuck);
            edit_error(if place.0.is_empty() { first } else { &place }, what)
        })?;
        let new = sheet.apply_splices(0..text.len(), &splices);
        let new = new.map(|new| new.strip_suffix(style.newline).filter(|_| bare).map(str::to_owned).unwrap_or(new));
        let is_meant = |text: &String| match self.is_json {
            true => parse::json(text).is_ok_and(|value| value == meant),
            false => parse::is_yaml_of(text, &meant),
        };
        new.filter(is_meant)
            .ok_or_else(|| edit_error(first, "can't be written so that it would be read as it is meant"))
    }
}

fn edit_error(place: &Place, what: &str) -> EditError {
    EditError { place: place.clone(), message: what.to_owned() }
}

/// How a document is written: by the first example of each.
fn detect_style(text: &str, tree: &Tree, json: bool) -> Style {
    let fields = || {
        tree.nodes().filter_map(|node| match &node.kind {
            NodeKind::Object { flow: false, entries } => Some(entries.iter().copied()),
            _ => None,
        })
    };
    let from_key =
        |key: usize, at: usize| lines::column(text, at)?.checked_sub(lines::column(text, tree.node(key).start)?);
    let unit = fields().flatten().find_map(|(key, value)| match &tree.node(value).kind {
        NodeKind::Object { flow: false, .. } => from_key(key, tree.node(value).content.start).filter(|unit| *unit > 0),
        _ => None,
    });
    let list = fields().flatten().find_map(|(key, value)| match &tree.node(value).kind {
        NodeKind::List { flow: false, items } => {
            items.first().and_then(|item| from_key(key, lines::dash_position(text, tree.node(*item))?))
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

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

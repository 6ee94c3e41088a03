//! Writes edits into a document's text so that nothing else changes, and believes no result that it has not read again.
//!
//! The edits are first collected beside the tree of the text ([`draft`]). Each collection that changes then says what takes the
//! place of which of its lines ([`block`]), or of what between its brackets ([`flow`]), and all of that is done at once. A collection
//! that can't be edited in this way is written again as a whole, unless it holds comments. In the end the text is read as Kubernetes
//! reads it, and compared with the value that was meant. If they differ, the document stays as it was.

mod block;
mod draft;
mod flow;
mod render;
mod sheet;
mod text;

use super::spans::{Kind, Tree};
use super::{Document, read};
use draft::Draft;
use podgate::order::edit::{Edit, Place, apply};
use render::Style;
use sheet::Sheet;

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
            apply(&mut meant, edit).map_err(|_| refused(&edit.at, "is not there, or is of another kind"))?;
        }
        let Some(first) = edits.first().map(|edit| &edit.at) else { return Ok(self.text.clone()) };
        let unknown = || refused(first, "stands in a document whose places can't be told");
        let tree = self.tree().ok_or_else(unknown)?;
        let style = style(&self.text, tree, self.json);
        // Whole lines come and go more easily where the last one has its end too.
        let bare = !self.text.ends_with('\n');
        let text = format!("{}{}", self.text, if bare { style.newline } else { "" });
        let mut draft = Draft::new(&text, tree, &self.value);
        edits.iter().try_for_each(|edit| draft.make(edit))?;
        let sheet = Sheet { text: &text, tree, draft: &draft, style: &style };
        let splices = sheet.document(&meant).map_err(|stuck| {
            let what =
                "is written in a way that can't be edited without a change elsewhere; write it in plain block style";
            let place = draft.place(stuck);
            refused(if place.0.is_empty() { first } else { &place }, what)
        })?;
        let new = sheet.spliced(0..text.len(), &splices);
        let new = new.map(|new| new.strip_suffix(style.newline).filter(|_| bare).map(str::to_owned).unwrap_or(new));
        let is_meant = |text: &String| match self.json {
            true => read::json(text).is_ok_and(|value| value == meant),
            false => read::is_yaml_of(text, &meant),
        };
        new.filter(is_meant).ok_or_else(|| refused(first, "can't be written so that it would be read as it is meant"))
    }
}

fn refused(place: &Place, what: &str) -> Refused {
    Refused { place: place.clone(), what: what.to_owned() }
}

/// How a document is written: by the first example of each.
fn style(text: &str, tree: &Tree, json: bool) -> Style {
    let fields = || {
        tree.nodes().filter_map(|node| match &node.kind {
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
        Kind::List { flow: false, items } => {
            items.first().and_then(|item| from_key(key, text::dash(text, tree.node(*item))?))
        }
        _ => None,
    });
    Style {
        json,
        spaced: text.contains("\": ") || text.contains("\" :") || !text.contains("\":"),
        newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
        unit: unit.unwrap_or(2),
        list: list.unwrap_or(0),
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

//! Lists of objects (`kind: List`), which may be long: each item is edited as a document of its own, so that the work grows with
//! the list and not with its square.

use super::super::Document;
use super::super::spans::Kind;
use super::block::Sheet;
use super::text::{begins_line, line_end, line_start};
use super::{Draft, style};
use podgate::order::edit::{Edit, Place, Step};
use std::collections::BTreeMap;
use std::ops::Range;

/// The document's text with the edits; `None` where it is no list, or one whose items hang together.
pub(super) fn edited(document: &Document, edits: &[Edit]) -> Option<String> {
    let mut by_item: BTreeMap<usize, Vec<Edit>> = BTreeMap::new();
    for edit in edits {
        let [Step::Key(items), Step::Index(index), rest @ ..] = &edit.at.0[..] else { return None };
        if items != "items" || rest.is_empty() {
            return None;
        }
        by_item.entry(*index).or_default().push(Edit { at: Place(rest.to_vec()), op: edit.op.clone() });
    }
    let tree = document.tree()?;
    if by_item.is_empty() || tree.nodes().any(|(_, node)| matches!(node.kind, Kind::Alias(_))) {
        return None;
    }
    let style = style(&document.text, Some(tree));
    let sheet = Sheet { text: &document.text, tree, style: &style };
    let list = tree.entry(tree.root(), "items")?.1;
    let Kind::List { items, .. } = &tree.node(list).kind else { return None };

    let (mut text, mut at) = (String::with_capacity(document.text.len()), 0);
    for (index, edits) in by_item {
        let (range, dash) = part(&sheet, *items.get(index)?)?;
        let mut body = document.text[range.clone()].to_owned();
        if let Some(dash) = dash {
            body.replace_range(dash..=dash, " ");
        }
        let value = document.value.get("items")?.get(index)?.clone();
        let mut draft = Draft { style: style.clone(), ..Draft::new(body, value, document.json, false) };
        edits.iter().try_for_each(|edit| draft.make(edit)).ok()?;
        if let Some(dash) = dash {
            // Its first line must have stayed behind the dash.
            draft.text.get(..=dash).filter(|start| start.trim().is_empty())?;
            draft.text.replace_range(dash..=dash, "-");
        }
        text.push_str(&document.text[at..range.start]);
        text.push_str(&draft.text);
        at = range.end;
    }
    text.push_str(&document.text[at..]);
    Some(text)
}

/// The text of an item, and where its dash is in that.
fn part(sheet: &Sheet<'_>, item: usize) -> Option<(Range<usize>, Option<usize>)> {
    let node = sheet.tree.node(item);
    match node.kind {
        Kind::Object { flow: true, .. } if node.start == node.content.start => Some((node.content.clone(), None)),
        Kind::Object { flow: false, .. } => {
            let dash = sheet.dash(item).filter(|dash| begins_line(sheet.text, *dash))?;
            let start = line_start(sheet.text, dash);
            Some((start..line_end(sheet.text, node.content.end), Some(dash - start)))
        }
        _ => None,
    }
}

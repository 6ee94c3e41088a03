//! Computes and applies the splices that turn a document's text into the text that the edited tree describes.

use super::super::spans::{NodeKind, Tree};
use super::edited_tree::EditedTree;
use super::lines::next_line_start;
use super::render::Style;
use serde_json::Value;
use std::ops::Range;

pub(super) type Splice = (Range<usize>, String);

/// Document during an edit. The last line of `text` ends with a line break.
#[derive(Clone, Copy)]
pub(super) struct Splicer<'a> {
    pub(super) text: &'a str,
    pub(super) tree: &'a Tree,
    pub(super) edited_tree: &'a EditedTree<'a>,
    pub(super) style: &'a Style,
}

/// One entry of a collection after the edits, and how to write its value.
pub(super) struct EditedEntry<'v> {
    pub(super) old_index: Option<usize>,
    pub(super) key: Option<String>,
    /// The new value, if the whole value is rendered again.
    pub(super) new_value: Option<&'v Value>,
    /// The splices inside the value. Used only if the value is not rendered again.
    pub(super) inner_splices: Vec<Splice>,
}

impl Splicer<'_> {
    /// Returns the splices that turn a collection into `expected`.
    pub(super) fn collection_splices(&self, node: usize, expected: &Value) -> Result<Vec<Splice>, usize> {
        let mut parts = Vec::new();
        for (index, slot) in self.edited_tree.entries(node).into_iter().enumerate() {
            let value = slot.key.as_ref().map_or_else(|| expected.get(index), |key| expected.get(key));
            let mut part = EditedEntry {
                old_index: slot.old_index,
                key: slot.key,
                new_value: value.filter(|_| slot.is_rewritten),
                inner_splices: Vec::new(),
            };
            let old = slot.old_index.filter(|_| !slot.is_rewritten);
            if let (Some((_, child)), Some(value)) = (old.and_then(|from| self.tree.child(node, from)), value) {
                let subtree = child..self.tree.nodes[child].subtree_end();
                if self.loses_all_entries(child) {
                    part.new_value = Some(value);
                } else if self.edited_tree.changed.range(subtree).next().is_some() {
                    let own = &self.tree.nodes[child];
                    let lines = own.start()..next_line_start(self.text, own.content().end);
                    match self.collection_splices(child, value) {
                        Ok(inner) => part.inner_splices = inner,
                        // If there are no comments, rendering the whole value again loses only its layout.
                        Err(_) if !self.text[lines].contains('#') => part.new_value = Some(value),
                        Err(failed) => return Err(failed),
                    }
                }
            }
            parts.push(part);
        }
        if !self.edited_tree.changed.contains_key(&node) && parts.iter().all(|part| part.new_value.is_none()) {
            return Ok(parts.into_iter().flat_map(|part| part.inner_splices).collect());
        }
        let splices = match self.tree.nodes[node].kind {
            NodeKind::Object { flow: false } => self.object_splices(node, parts),
            NodeKind::List { flow: false } => self.list_splices(node, parts),
            _ => self.flow_splices(node, parts),
        };
        splices.ok_or(node)
    }

    /// Returns the number of a value's own outer levels that have one line per field. More than one counts as all.
    pub(super) fn block_levels_inside(&self, node: usize) -> usize {
        let nodes = &self.tree.nodes[node..self.tree.nodes[node].subtree_end()];
        let objects = nodes.iter().filter(|node| matches!(node.kind, NodeKind::Object { flow: false })).count();
        if objects > 1 { usize::MAX } else { objects }
    }

    /// Returns true if the edits keep none of a collection's entries, so that it must be rendered again. For example, a
    /// `[]` that gets entries becomes a block list, and an emptied block list becomes `[]`.
    pub(super) fn loses_all_entries(&self, node: usize) -> bool {
        let Some(slots) = self.edited_tree.changed.get(&node) else { return false };
        let kind = |node: usize| &self.tree.nodes[node].kind;
        let block =
            |node: usize| matches!(kind(node), NodeKind::Object { flow: false } | NodeKind::List { flow: false });
        let filled = || !self.style.is_json && !slots.is_empty() && self.tree.nodes[node].parent().is_some_and(block);
        slots.iter().all(|slot| slot.old_index.is_none()) && (block(node) || filled())
    }
}

/// Returns the text of a range after the splices inside it, or `None` if these overlap. Ignores all other splices.
pub(super) fn splice_inside(text: &str, range: Range<usize>, splices: &[Splice]) -> Option<String> {
    let inside =
        |(at, new): &&Splice| range.start <= at.start && at.end <= range.end && !(at.is_empty() && new.is_empty());
    let mut inside: Vec<&Splice> = splices.iter().filter(inside).collect();
    inside.sort_by_key(|(at, _)| (at.start, at.end));
    let (mut out, mut end) = (String::with_capacity(range.len()), range.start);
    for (at, new) in inside {
        out.push_str(text.get(end..at.start)?);
        out.push_str(new);
        end = at.end;
    }
    out.push_str(text.get(end..range.end)?);
    Some(out)
}

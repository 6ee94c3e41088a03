//! The entries of each collection after the edits, together with the tree of the unedited text.
//!
//! An edit must change one place, not all places that share an anchor. But an edit can go through an alias or a merge
//! key, or change an anchored value. The edited tree then replaces the affected aliases with copies of the value.

use super::super::spans::{NodeKind, Tree};
use super::edit_error;
use super::lines::begins_line;
use podgate::order::edit::{Edit, Op, PathSegment, Place};
use podgate::order::finding::Finding;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// One entry of a collection after the edits.
#[derive(Debug, Clone)]
pub(super) struct EditedEntry {
    /// The index before the edits; `None` for a new entry.
    pub(super) old_index: Option<usize>,
    pub(super) key: Option<String>,
    /// True if the whole value is rendered again. Otherwise only the edits inside the value change its text.
    pub(super) is_rewritten: bool,
}

/// Edits of a document, without the new values. The splicer takes these values from the intended document.
pub(super) struct EditedTree<'a> {
    pub(super) text: &'a str,
    pub(super) tree: &'a Tree,
    /// The parsed value of `text`.
    pub(super) value: &'a Value,
    /// Maps each changed collection to its entries after the edits.
    pub(super) changed: BTreeMap<usize, Vec<EditedEntry>>,
}

/// Pairs of fields. The first field of each pair is inserted before the second, because readers expect that order.
const FIELD_ORDER: [(&str, &str); 4] =
    [("initContainers", "containers"), ("command", "args"), ("metadata", "spec"), ("serviceAccountName", "containers")];

impl EditedTree<'_> {
    /// Adds one edit, which must apply to the value after all previous edits.
    pub(super) fn add_edit(&mut self, edit: &Edit) -> Result<(), Finding> {
        let Some((last, parents)) = edit.at.0.split_last() else {
            return Err(edit_error(&edit.at, "cannot be replaced as a whole"));
        };
        let mut node = Tree::ROOT;
        for step in parents {
            self.expand_aliases(node..node + 1, 0..0)?;
            match self.enter_child(node, step) {
                Some(next) => node = next,
                None => return Ok(()),
            }
        }
        self.expand_aliases(node..node + 1, 0..0)?;
        match (&edit.op, last) {
            (Op::Insert(_), PathSegment::Index(index)) => {
                self.entries_mut(node).insert(*index, EditedEntry { old_index: None, key: None, is_rewritten: true });
            }
            (Op::Move(to), PathSegment::Index(index)) => {
                // A moved anchor could end up behind its aliases, so replace the aliases with copies first.
                self.expand_aliases(node..self.tree.nodes[node].subtree_end(), 0..0)?;
                let slots = self.entries_mut(node);
                let slot = slots.remove(*index);
                slots.insert(*to, slot);
            }
            (op, step) => match self.find_entry(node, step) {
                Some((index, old)) => {
                    let replaced = old.map_or(0..0, |old| old..self.tree.nodes[old].subtree_end());
                    self.expand_aliases(replaced.clone(), replaced)?;
                    let slots = self.entries_mut(node);
                    match op {
                        Op::Remove => drop(slots.remove(index)),
                        _ => slots[index].is_rewritten = true,
                    }
                }
                None if *op == Op::Remove => {
                    let message =
                        "comes from a merge key (<<) and cannot be removed here; replace the merge with its fields";
                    return Err(edit_error(&edit.at, message));
                }
                None => self.add_field(node, step),
            },
        }
        Ok(())
    }

    /// Returns the node at `step`, or `None` if the whole value at `step` will be rendered again.
    fn enter_child(&mut self, node: usize, step: &PathSegment) -> Option<usize> {
        let Some((index, old)) = self.find_entry(node, step) else {
            // The field comes from a merge key, so add the field to the object itself.
            self.add_field(node, step);
            return None;
        };
        if matches!(self.tree.nodes[old?].kind, NodeKind::Alias(_)) {
            self.entries_mut(node)[index].is_rewritten = true;
            return None;
        }
        old
    }

    /// Returns the index of an entry. Also returns the entry's node, unless the entry will be rendered again.
    fn find_entry(&self, node: usize, step: &PathSegment) -> Option<(usize, Option<usize>)> {
        let index = match (step, self.changed.get(&node)) {
            (PathSegment::Index(index), _) => *index,
            (PathSegment::Key(key), Some(slots)) => {
                slots.iter().rposition(|slot| slot.key.as_deref() == Some(&**key))?
            }
            (PathSegment::Key(key), None) => {
                let has_key = |name| self.tree.key_text(self.text, name).is_some_and(|name| *name == **key);
                self.tree.children(node).enumerate().filter(|(_, (name, _))| has_key(*name)).last()?.0
            }
        };
        let from = match self.changed.get(&node) {
            Some(slots) => slots.get(index)?.old_index.filter(|_| !slots[index].is_rewritten),
            None => Some(index),
        };
        Some((index, from.and_then(|from| Some(self.tree.child(node, from)?.1))))
    }

    /// Adds a field at the end, or at the position that [`FIELD_ORDER`] requires.
    fn add_field(&mut self, object: usize, step: &PathSegment) {
        let PathSegment::Key(key) = step else { return };
        let (text, tree) = (self.text, self.tree);
        let key_of = |from: usize| tree.child(object, from)?.0;
        let begins = |from: usize| key_of(from).is_some_and(|key| begins_line(text, tree.nodes[key].start()));
        // In Kubernetes' parser, a merge key replaces the fields above it, so add the field below the merge key.
        let at_end = matches!(tree.nodes[object].kind, NodeKind::Object { flow: true })
            || tree.children(object).any(|(key, _)| tree.is_merge_key(text, key));
        let follower = FIELD_ORDER.iter().find(|(new, _)| *new == &**key).filter(|_| !at_end);
        let slots = self.entries_mut(object);
        // The first field of a list item follows the dash. No field can be inserted before that first field.
        let index = follower.and_then(|(_, follower)| {
            slots.iter().position(|slot| slot.key.as_deref() == Some(*follower) && slot.old_index.is_none_or(begins))
        });
        let entry = EditedEntry { old_index: None, key: Some(key.to_string()), is_rewritten: true };
        slots.insert(index.unwrap_or(slots.len()), entry);
    }

    /// Replaces the aliases of all nodes in `targets` with copies, except for aliases inside `except`.
    fn expand_aliases(&mut self, targets: Range<usize>, except: Range<usize>) -> Result<(), Finding> {
        let mut aliases = self.tree.aliases_of(targets).filter(|alias| !except.contains(alias));
        aliases.try_for_each(|alias| self.expand_alias(alias))
    }

    /// Replaces one alias with a copy of its value. If the alias is part of a merge key, replaces the merge key with
    /// the merged fields.
    fn expand_alias(&mut self, alias: usize) -> Result<(), Finding> {
        let (mut merges, mut node) = (None, alias);
        while let Some(parent) = self.tree.nodes[node].parent() {
            if self.tree.children(parent).any(|(key, value)| value == node && self.tree.is_merge_key(self.text, key)) {
                merges = Some(parent);
            }
            node = parent;
        }
        if let Some(object) = merges {
            let merged = self.old_place_of(object).of(self.value).and_then(Value::as_object);
            for key in merged.into_iter().flat_map(|fields| fields.keys()) {
                if self.find_entry(object, &PathSegment::from(key.as_str())).is_none() {
                    self.add_field(object, &PathSegment::from(key.as_str()));
                }
            }
            let key = |from: usize| self.tree.child(object, from)?.0;
            let is_merge_key = |from: usize| self.tree.is_merge_key(self.text, key(from));
            let slots =
                self.entries(object).into_iter().filter(|slot| !slot.old_index.is_some_and(is_merge_key)).collect();
            self.changed.insert(object, slots);
            return Ok(());
        }
        let Some(parent) = self.tree.nodes[alias].parent() else { return Ok(()) };
        let Some(index) = self.tree.children(parent).position(|(_, value)| value == alias) else {
            let message = "has a key that is an alias (*) of a changed value; write the key without an alias";
            return Err(edit_error(&self.old_place_of(parent), message));
        };
        if let Some(slot) = self.entries_mut(parent).iter_mut().find(|slot| slot.old_index == Some(index)) {
            slot.is_rewritten = true;
        }
        Ok(())
    }

    /// Returns the place of a node in the unedited value.
    pub(super) fn old_place_of(&self, mut node: usize) -> Place {
        let mut steps = Vec::new();
        while let Some(parent) = self.tree.nodes[node].parent() {
            let child = self.tree.children(parent).enumerate().find(|(_, (_, value))| *value == node);
            let (index, (key, _)) = child.unwrap_or_default();
            let key = self.tree.key_text(self.text, key);
            steps.push(key.map_or(PathSegment::Index(index), |key| PathSegment::from(&*key)));
            node = parent;
        }
        steps.reverse();
        Place(steps)
    }

    /// Returns the entries of a collection after the edits. Without edits, these are the old entries.
    pub(super) fn entries(&self, node: usize) -> Vec<EditedEntry> {
        let written = || {
            let slot = |(from, (key, _))| {
                let key = self.tree.key_text(self.text, key).map(Cow::into_owned);
                EditedEntry { old_index: Some(from), key, is_rewritten: false }
            };
            self.tree.children(node).enumerate().map(slot).collect()
        };
        self.changed.get(&node).cloned().unwrap_or_else(written)
    }

    fn entries_mut(&mut self, node: usize) -> &mut Vec<EditedEntry> {
        if !self.changed.contains_key(&node) {
            self.changed.insert(node, self.entries(node));
        }
        self.changed.entry(node).or_default()
    }
}

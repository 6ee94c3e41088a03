//! Aliases and merge keys that are in an edit's way. What an alias stands for is written out where the alias was, and what a merge
//! key brings where the merge key was: so an edit changes one place, and not all that share its anchor.

use super::super::spans::{Kind, Tree};
use super::{Draft, Refused, refused, written};
use podgate::order::edit::{Edit, Op, Place, Step};
use serde_json::Value;

impl Draft {
    /// Writes out all aliases and merge keys that the edit would go through, or would take along; the tree of the text without them.
    pub(super) fn clear(&mut self, edit: &Edit) -> Result<Tree, Refused> {
        loop {
            let tree = self.tree(&edit.at)?;
            if tree.nodes().all(|(_, node)| !matches!(node.kind, Kind::Alias(_))) {
                return Ok(tree);
            }
            match self.next(&tree, edit)? {
                None => return Ok(tree),
                Some(Way::Field(place)) => {
                    let value = self.at(&place)?;
                    self.write(&tree, &Edit { at: place, op: Op::Set(value) })?;
                }
                Some(Way::Alias(node)) => self.expand(&tree, node, &edit.at)?,
            }
        }
    }

    /// [`Draft::write`] where the text has changed since its tree was read.
    fn write_anew(&mut self, edit: &Edit) -> Result<(), Refused> {
        let tree = self.tree(&edit.at)?;
        self.write(&tree, edit)
    }

    fn at(&self, place: &Place) -> Result<Value, Refused> {
        place.of(&self.value).cloned().ok_or_else(|| refused(place, "is not there, or is of another kind"))
    }

    /// What is the first in the way.
    fn next(&self, tree: &Tree, edit: &Edit) -> Result<Option<Way>, Refused> {
        let Some((last, parents)) = edit.at.0.split_last() else { return Ok(None) };
        let (mut node, mut touched) = (tree.root(), Vec::new());
        for (depth, step) in edit.at.0.iter().enumerate() {
            if matches!(tree.node(node).kind, Kind::Alias(_)) {
                return Ok(Some(Way::Alias(node)));
            }
            touched.push(tree.node(node).anchor);
            let next = match (step, &tree.node(node).kind) {
                (Step::Key(key), _) => tree.entry(node, key).map(|(_, value)| value),
                (Step::Index(index), Kind::List { items, .. }) => items.get(*index).copied(),
                _ => None,
            };
            let here = Place(edit.at.0[..=depth].to_vec());
            node = match next {
                Some(next) => next,
                // A new field or item.
                None if here.of(&self.value).is_none()
                    || depth == parents.len() && matches!(edit.op, Op::Insert(_)) =>
                {
                    break;
                }
                None if depth == parents.len() && edit.op == Op::Remove => {
                    return Err(refused(
                        &here,
                        "comes from a merge key (<<) and can't be taken away here; write it out",
                    ));
                }
                None => return Ok(Some(Way::Field(here))),
            };
        }
        // What goes, or changes its place, takes its anchors along.
        let list = written(tree, parents);
        let goes = match (&edit.op, last) {
            (Op::Move(_), _) => list,
            (Op::Insert(_), _) => None,
            _ => written(tree, &edit.at.0),
        };
        let inside: Vec<usize> = goes.map(|root| subtree(tree, root)).unwrap_or_default();
        touched.extend(inside.iter().map(|node| tree.node(*node).anchor));
        let moved = matches!(edit.op, Op::Move(_));
        let mut aliases = tree.nodes().filter_map(|(id, node)| match node.kind {
            Kind::Alias(anchor) => Some((id, anchor)),
            _ => None,
        });
        let found = aliases.find(|(id, anchor)| {
            // What goes away may take its own aliases along; what moves may come to stand before what they name.
            if inside.contains(id) { moved } else { touched.contains(anchor) }
        });
        Ok(found.map(|(id, _)| Way::Alias(id)))
    }

    /// Writes out one alias, or the merge key that it belongs to.
    fn expand(&mut self, tree: &Tree, alias: usize, wanted: &Place) -> Result<(), Refused> {
        let unclear = || refused(wanted, "is shared by an alias (*) in a place where it can't be written out");
        let (place, merge) = locate(tree, alias).ok_or_else(unclear)?;
        if !merge {
            let value = self.at(&place)?;
            return self.write(tree, &Edit { at: place, op: Op::Set(value) });
        }
        let object = written(tree, &place.0).ok_or_else(unclear)?;
        let Value::Object(fields) = self.at(&place)? else { return Err(unclear()) };
        let careful = std::mem::replace(&mut self.careful, false);
        let merged = fields.into_iter().filter(|(key, _)| tree.entry(object, key).is_none());
        let mut result = Ok(());
        for (key, value) in merged {
            result = result.and_then(|()| self.write_anew(&Edit { at: place.to(key.as_str()), op: Op::Set(value) }));
        }
        result = result.and_then(|()| self.write_anew(&Edit { at: place.to("<<"), op: Op::Remove }));
        self.careful = careful;
        result
    }
}

/// What stands in the way.
enum Way {
    /// A field that a merge key brings.
    Field(Place),
    /// An alias, by its node.
    Alias(usize),
}

fn subtree(tree: &Tree, root: usize) -> Vec<usize> {
    let (mut open, mut found) = (vec![root], Vec::new());
    while let Some(node) = open.pop() {
        found.push(node);
        match &tree.node(node).kind {
            Kind::List { items, .. } => open.extend(items),
            Kind::Object { entries, .. } => open.extend(entries.iter().flat_map(|(key, value)| [*key, *value])),
            _ => {}
        }
    }
    found
}

/// The place of a node; or, where it is a part of a merge key's value, of the object with the merge key.
fn locate(tree: &Tree, wanted: usize) -> Option<(Place, bool)> {
    let mut open = vec![(tree.root(), Place::root())];
    while let Some((node, place)) = open.pop() {
        if node == wanted {
            return Some((place, false));
        }
        match &tree.node(node).kind {
            Kind::List { items, .. } => {
                open.extend(items.iter().enumerate().map(|(index, item)| (*item, place.to(index))));
            }
            Kind::Object { entries, .. } => {
                for (key, value) in entries {
                    if tree.is_merge(*key) {
                        if subtree(tree, *value).contains(&wanted) {
                            return Some((place, true));
                        }
                    } else if let Kind::Scalar { text, .. } = &tree.node(*key).kind {
                        open.push((*value, place.to(text.as_str())));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

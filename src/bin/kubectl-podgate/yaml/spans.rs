//! Maps the values and keys of a document to ranges of its text.

use podgate::order::edit::{PathSegment, Place};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, StructureStyle};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::ops::Range;

/// Tree of all values and keys of a document, with their ranges. In a large document, the nodes use most of the memory.
/// Nodes therefore contain no texts and no lists of children.
#[derive(Default)]
pub(crate) struct Tree {
    /// The nodes, parents before children. The id of a node is its index in this list.
    pub(crate) nodes: Vec<Node>,
    /// Maps each list that is not empty to its items.
    items: BTreeMap<usize, Vec<u32>>,
    /// Maps each anchored node to its aliases.
    aliases: BTreeMap<usize, Vec<usize>>,
}

/// One value or key.
pub(crate) struct Node {
    /// Id of the collection that contains the node; `u32::MAX` for the root.
    parent: u32,
    subtree_end: u32,
    start: u32,
    content: Range<u32>,
    pub(crate) kind: NodeKind,
}

impl Node {
    pub(crate) fn parent(&self) -> Option<usize> {
        (self.parent != u32::MAX).then_some(self.parent as usize)
    }

    /// Returns the first id after the ids of the node's descendants.
    pub(crate) fn subtree_end(&self) -> usize {
        self.subtree_end as usize
    }

    /// Returns the start of the node, including its anchor and tag.
    pub(crate) fn start(&self) -> usize {
        self.start as usize
    }

    /// Returns the range of the value itself, without anchor, tag, trailing comments and line breaks.
    pub(crate) fn content(&self) -> Range<usize> {
        self.content.start as usize..self.content.end as usize
    }
}

pub(crate) enum NodeKind {
    Scalar,
    List {
        flow: bool,
    },
    Object {
        flow: bool,
    },
    /// An alias (`*name`), with the id of the anchored node.
    Alias(u32),
}

/// A child of a collection: the id of its key, if the child is a field, and the id of its value.
type Child = (Option<usize>, usize);

/// Maximum number of merge keys to follow in a chain. A chain has no end if an object merges itself.
const MERGE_DEPTH_MAX: usize = 16;

impl Tree {
    /// Id of the root, if the tree has nodes.
    pub(crate) const ROOT: usize = 0;

    /// Parses a document. Returns `None` if the document is empty, invalid or too large.
    pub(crate) fn parse(text: &str) -> Option<Tree> {
        u32::try_from(text.len()).ok()?;
        // A list or an object can be a key, so the parser looks ahead for its end. This option limits the distance.
        let options = granit_parser::options! { emit_anchor_events: true, emit_comments: false, simple_key_max_lookahead: 1 << 16 };
        // Reserved memory that is not used costs nothing. Without the reservation, a growing list would briefly need
        // memory for two copies.
        let tree = Tree { nodes: Vec::with_capacity(text.len() / 8), ..Tree::default() };
        let mut build = TreeBuilder { text, tree, open_collections: Vec::new(), anchors: HashMap::new() };
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, span) = next.ok()?;
            build.on_event(&event, &span)?;
        }
        (!build.tree.nodes.is_empty() && build.open_collections.is_empty()).then_some(build.tree)
    }

    /// Returns the fields of an object or the items of a list.
    pub(crate) fn children(&self, id: usize) -> impl Iterator<Item = Child> {
        let is_object = matches!(self.nodes[id].kind, NodeKind::Object { .. });
        let (mut at, end) = (id + 1, self.nodes[id].subtree_end());
        iter::from_fn(move || {
            let key = (is_object && at < end).then_some(at);
            let value = key.map_or(at, |key| self.nodes[key].subtree_end());
            at = self.nodes[..end].get(value)?.subtree_end();
            Some((key, value))
        })
    }

    pub(crate) fn child(&self, id: usize, index: usize) -> Option<Child> {
        match self.items.get(&id) {
            Some(items) => items.get(index).map(|item| (None, *item as usize)),
            None => self.children(id).nth(index),
        }
    }

    /// Returns the aliases that refer to nodes in a range of ids.
    pub(crate) fn aliases_of(&self, targets: Range<usize>) -> impl Iterator<Item = usize> {
        self.aliases.range(targets).flat_map(|(_, aliases)| aliases.iter().copied())
    }

    /// Returns the parsed text of a field's key. `text` is the text of the document.
    pub(crate) fn key_text<'t>(&self, text: &'t str, key: Option<usize>) -> Option<Cow<'t, str>> {
        let Node { kind: NodeKind::Scalar, content, .. } = &self.nodes[self.resolve_alias(key?)] else { return None };
        let written = &text[content.start as usize..content.end as usize];
        let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
        if !inner.contains(['"', '\'', '\\', '\n']) {
            return Some(inner.into());
        }
        let mut events = Parser::new_from_str(written).filter_map(Result::ok);
        events.find_map(|(event, _)| match event {
            Event::Scalar(text, ..) => Some(text.into_owned().into()),
            _ => None,
        })
    }

    /// Returns the target of an alias, which is never another alias. Returns any other node itself.
    fn resolve_alias(&self, id: usize) -> usize {
        if let NodeKind::Alias(target) = self.nodes[id].kind { target as usize } else { id }
    }

    /// Returns true for the key `<<`.
    pub(crate) fn is_merge_key(&self, text: &str, key: Option<usize>) -> bool {
        let key = key.map(|key| &self.nodes[key]);
        key.is_some_and(|key| matches!(key.kind, NodeKind::Scalar) && &text[key.content()] == "<<")
    }

    /// Returns the child of `from` at `step`. If the child is a field, also returns the key. Follows aliases and merge
    /// keys. Of duplicate fields, returns the last.
    fn follow_step(&self, text: &str, from: usize, step: &PathSegment, depth: usize) -> Option<Child> {
        let from = self.resolve_alias(from);
        match step {
            PathSegment::Index(index) => self.child(from, *index).filter(|(key, _)| key.is_none()),
            PathSegment::Key(name) => {
                let own =
                    self.children(from).filter(|(key, _)| self.key_text(text, *key).is_some_and(|key| *key == **name));
                let mut merged =
                    self.children(from).filter(|(key, _)| depth < MERGE_DEPTH_MAX && self.is_merge_key(text, *key));
                own.last().or_else(|| merged.find_map(|(_, value)| self.follow_merged(text, value, step, depth)))
            }
        }
    }

    fn follow_merged(&self, text: &str, value: usize, step: &PathSegment, depth: usize) -> Option<Child> {
        let target = self.resolve_alias(value);
        match self.nodes[target].kind {
            NodeKind::List { .. } => {
                self.children(target).find_map(|(_, item)| self.follow_step(text, item, step, depth + 1))
            }
            _ => self.follow_step(text, value, step, depth + 1),
        }
    }

    /// Returns the value at `place`; `None` if it does not exist.
    pub(crate) fn node_at(&self, text: &str, place: &Place) -> Option<usize> {
        place.0.iter().try_fold(Tree::ROOT, |node, step| Some(self.follow_step(text, node, step, 0)?.1))
    }

    /// Returns the value at `place` or at the nearest existing parent of `place`, with the key if the value is a field.
    pub(crate) fn nearest_existing(&self, text: &str, place: &Place) -> Child {
        let root = (None, Tree::ROOT);
        let follow = |from: &mut Child, step| self.follow_step(text, from.1, step, 0).inspect(|next| *from = *next);
        place.0.iter().scan(root, follow).last().unwrap_or(root)
    }
}

/// Builds a [`Tree`] from the parser's events.
struct TreeBuilder<'a> {
    text: &'a str,
    tree: Tree,
    /// The open collections, each with its last child.
    open_collections: Vec<(usize, Option<usize>)>,
    /// Maps the parser's anchor ids to nodes.
    anchors: HashMap<usize, usize>,
}

impl TreeBuilder<'_> {
    fn on_event(&mut self, event: &Event<'_>, span: &granit_parser::Span) -> Option<()> {
        let range = span.byte_range()?;
        let tag = span.tag_span().and_then(|span| span.byte_range()).map(|range| range.start);
        let start = tag.unwrap_or(range.start);
        match event {
            Event::Scalar(_, style, anchor, _) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let content = if block { self.block_scalar(&range) } else { range };
                self.add_node(start.min(content.start), content, *anchor, NodeKind::Scalar);
            }
            Event::Alias(anchor) => {
                let target = *self.anchors.get(anchor)?;
                let alias = self.add_node(start, range, 0, NodeKind::Alias(target as u32));
                self.tree.aliases.entry(target).or_default().push(alias);
            }
            Event::SequenceStart(style, anchor, _) | Event::MappingStart(style, anchor, _) => {
                let flow = *style == StructureStyle::Flow;
                let kind = match event {
                    Event::SequenceStart(..) => NodeKind::List { flow },
                    _ => NodeKind::Object { flow },
                };
                let id = self.add_node(start, range, *anchor, kind);
                self.open_collections.push((id, None));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (id, last) = self.open_collections.pop()?;
                let last = last.map(|last| self.tree.nodes[last].content.end);
                let until = self.tree.nodes.len() as u32;
                let node = &mut self.tree.nodes[id];
                let end = match node.kind {
                    NodeKind::List { flow: false } | NodeKind::Object { flow: false } => last?,
                    _ => last.unwrap_or_default().max(range.end as u32),
                };
                node.subtree_end = until;
                node.content.end = end.max(node.content.start);
            }
            Event::Anchor(..) => {
                // The parser sends the event of an anchor directly after the event of its node.
                let node = self.tree.nodes.last_mut()?;
                node.start = node.start.min(range.start as u32);
            }
            _ => {}
        }
        Some(())
    }

    /// Returns the range from `|` or `>` to the last line that is not blank. With `+`, trailing blank lines count too.
    fn block_scalar(&self, range: &Range<usize>) -> Range<usize> {
        let end = self.text[..range.end].trim_end().len();
        let before = self.text[..range.start.min(end)].trim_end();
        let line = before.rfind('\n').map_or(0, |newline| newline + 1);
        let header = before[line..].char_indices().find(|(index, _)| is_block_header(&before[line..], *index));
        let start = header.map_or(before.len(), |(index, _)| line + index);
        let keeps = before[start..].split('#').next().is_some_and(|header| header.contains('+'));
        let lines = self.text[..range.end].trim_end_matches(' ').trim_end_matches('\r');
        let all = lines.strip_suffix('\n').map_or(lines, |lines| lines.strip_suffix('\r').unwrap_or(lines));
        start..if keeps { all.len().max(end) } else { end }
    }

    fn add_node(&mut self, start: usize, content: Range<usize>, anchor: usize, kind: NodeKind) -> usize {
        let id = self.tree.nodes.len();
        let content = content.start as u32..content.end as u32;
        let mut parent = u32::MAX;
        if let Some((collection, last)) = self.open_collections.last_mut() {
            (parent, *last) = (*collection as u32, Some(id));
            if matches!(self.tree.nodes[*collection].kind, NodeKind::List { .. }) {
                self.tree.items.entry(*collection).or_default().push(id as u32);
            }
        }
        self.tree.nodes.push(Node { parent, subtree_end: id as u32 + 1, start: start as u32, content, kind });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }
}

/// Returns true if a block scalar's header begins at `index` of `line`. Only a comment may follow the header.
fn is_block_header(line: &str, index: usize) -> bool {
    let (before, from) = line.split_at(index);
    let Some(rest) = from.strip_prefix(['|', '>']) else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    let comment = rest.trim_start();
    before.chars().next_back().is_none_or(char::is_whitespace)
        && (comment.is_empty() || comment.starts_with('#') && comment.len() < rest.len())
}

//! Maps the values and keys of a document to ranges of its text.

use podgate::order::edit::{PathSegment, Place};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, StructureStyle};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Tree of all values and keys of a document, with their ranges.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The nodes, parents before children. The id of a node is its index in this list.
    pub(crate) nodes: Vec<Node>,
    /// Maps each anchored node to its aliases.
    aliases: BTreeMap<usize, Vec<usize>>,
}

/// One value or key.
#[derive(Debug)]
pub(crate) struct Node {
    /// The collection that contains the node.
    pub(crate) parent: Option<usize>,
    /// The first id after those of the node's descendants.
    pub(crate) subtree_end: usize,
    /// Start of the node, including its anchor and tag.
    pub(crate) start: usize,
    /// Range of the value itself, without anchor, tag, trailing comments and line breaks.
    pub(crate) content: Range<usize>,
    pub(crate) kind: NodeKind,
    /// The ids of the key and value of each field, or of the items, with `None` as the key.
    pub(crate) children: Vec<(Option<usize>, usize)>,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    /// A scalar with its parsed text. `block` is true for a scalar written with `|` or `>`.
    Scalar {
        text: String,
        quoted: bool,
        block: bool,
    },
    List {
        flow: bool,
    },
    Object {
        flow: bool,
    },
    /// An alias (`*name`), with the id of the anchored node.
    Alias(usize),
}

/// Maximum number of merge keys to follow in a chain. An object may merge itself.
const MERGE_DEPTH_MAX: usize = 16;

impl Tree {
    /// Id of the root, if the tree has nodes.
    pub(crate) const ROOT: usize = 0;

    /// Parses a document. Returns `None` if the document is empty or invalid.
    pub(crate) fn parse(text: &str) -> Option<Tree> {
        let options = granit_parser::options! { emit_anchor_events: true, emit_comments: false, simple_key_max_lookahead: 1 << 20 };
        let mut build =
            TreeBuilder { text, tree: Tree::default(), open_collections: Vec::new(), anchors: HashMap::new() };
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, span) = next.ok()?;
            build.on_event(&event, &span)?;
        }
        (!build.tree.nodes.is_empty() && build.open_collections.is_empty()).then_some(build.tree)
    }

    /// Returns the aliases that refer to nodes in a range of ids.
    pub(crate) fn aliases(&self, ids: Range<usize>) -> impl Iterator<Item = usize> {
        self.aliases.range(ids).flat_map(|(_, aliases)| aliases.iter().copied())
    }

    /// Returns the text of a field's key.
    pub(crate) fn key_text(&self, key: Option<usize>) -> Option<&str> {
        match &self.nodes[self.resolve_alias(key?)].kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns the target of an alias, or the node itself if the node is not an alias. No alias has an anchor.
    fn resolve_alias(&self, id: usize) -> usize {
        if let NodeKind::Alias(target) = self.nodes[id].kind { target } else { id }
    }

    /// Returns true for the key `<<`.
    pub(crate) fn is_merge(&self, key: Option<usize>) -> bool {
        let kind = key.map(|key| &self.nodes[key].kind);
        matches!(kind, Some(NodeKind::Scalar { text, quoted: false, .. }) if text == "<<")
    }

    /// Returns the child of `from` at `step`. If the child is a field, also returns the key. Follows aliases and merge
    /// keys. Of duplicate fields, returns the last.
    fn follow_step(&self, from: usize, step: &PathSegment, depth: usize) -> Option<(Option<usize>, usize)> {
        let children = &self.nodes[self.resolve_alias(from)].children;
        match step {
            PathSegment::Index(index) => children.get(*index).copied().filter(|(key, _)| key.is_none()),
            PathSegment::Key(name) => {
                let own = children.iter().rfind(|(key, _)| self.key_text(*key) == Some(&**name)).copied();
                let mut merged = children.iter().filter(|(key, _)| depth < MERGE_DEPTH_MAX && self.is_merge(*key));
                own.or_else(|| merged.find_map(|(_, value)| self.follow_merged(*value, step, depth)))
            }
        }
    }

    fn follow_merged(&self, value: usize, step: &PathSegment, depth: usize) -> Option<(Option<usize>, usize)> {
        let Node { kind, children, .. } = &self.nodes[self.resolve_alias(value)];
        match kind {
            NodeKind::List { .. } => children.iter().find_map(|(_, item)| self.follow_step(*item, step, depth + 1)),
            _ => self.follow_step(value, step, depth + 1),
        }
    }

    /// Returns the value at `place` or at the nearest existing parent of `place`, with the key if the value is a field.
    /// Also returns the number of steps that exist.
    pub(crate) fn nearest(&self, place: &Place) -> (Option<usize>, usize, usize) {
        let (mut key, mut node) = (None, Tree::ROOT);
        for (taken, step) in place.0.iter().enumerate() {
            match self.follow_step(node, step, 0) {
                Some((next_key, next)) => (key, node) = (next_key, next),
                None => return (key, node, taken),
            }
        }
        (key, node, place.0.len())
    }
}

/// Builds a [`Tree`] from the parser's events.
struct TreeBuilder<'a> {
    text: &'a str,
    tree: Tree,
    /// The open collections. Each has its last key, until the value of that key is added.
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
            Event::Scalar(text, style, anchor, _) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                let content = if block { self.block_scalar(&range) } else { range };
                let kind = NodeKind::Scalar { text: text.to_string(), quoted, block };
                self.add_node(start.min(content.start), content, *anchor, kind);
            }
            Event::Alias(anchor) => {
                let target = *self.anchors.get(anchor)?;
                let alias = self.add_node(start, range, 0, NodeKind::Alias(target));
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
                let (id, _) = self.open_collections.pop()?;
                let (until, last) = (self.tree.nodes.len(), self.tree.nodes[id].children.last());
                let last = last.map(|(_, last)| self.tree.nodes[*last].content.end);
                let node = &mut self.tree.nodes[id];
                let end = match node.kind {
                    NodeKind::List { flow: false } | NodeKind::Object { flow: false } => last?,
                    _ => range.end.max(last.unwrap_or_default()),
                };
                node.children.shrink_to_fit();
                node.subtree_end = until;
                node.content.end = end.max(node.content.start);
            }
            Event::Anchor(..) => {
                // The parser sends the event of an anchor directly after the event of its node.
                let node = self.tree.nodes.last_mut()?;
                node.start = node.start.min(range.start);
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
        let parent = self.open_collections.last().map(|(parent, _)| *parent);
        self.tree.nodes.push(Node { parent, subtree_end: id + 1, start, content, kind, children: Vec::new() });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        if let Some((parent, pending_key)) = self.open_collections.last_mut() {
            let Node { kind, children, .. } = &mut self.tree.nodes[*parent];
            match (kind, pending_key.take()) {
                (NodeKind::Object { .. }, None) => *pending_key = Some(id),
                (_, key) => children.push((key, id)),
            }
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

//! Edits in flow style and JSON: `[a, b]`, `{a: b}`, on one line or with one entry per line.

use super::lines::text_before_on_line;
use super::render::{self, FlowStyle};
use super::splicer::{EditedEntry, Splice, Splicer, splice_inside};
use serde::Serialize;
use serde_json::Value;
use std::ops::Range;

impl Splicer<'_> {
    /// Returns the splices for a collection in brackets, or `None` if a splice would remove a comment.
    pub(super) fn flow_splices(&self, node: usize, parts: Vec<EditedEntry<'_>>) -> Option<Vec<Splice>> {
        let whole = self.tree.nodes[node].content();
        // Do not edit an object without braces, such as the object in `[a: b]`.
        self.text[whole.clone()].starts_with(['[', '{']).then_some(())?;
        let elements = self.tree.children(node).map(|(key, value)| {
            let (start, end) = (self.tree.nodes[value].start(), self.tree.nodes[value].content().end);
            key.map(|key| &self.tree.nodes[key]).map_or(start..end, |key| key.start()..key.content().end.max(end))
        });
        let elements: Vec<Range<usize>> = elements.collect();
        let style = self.flow_style(node);
        let indent = elements.first().and_then(|first| self.line_indent(first.start));
        let separator = indent.map_or(style.comma.to_owned(), |indent| format!(",{}{indent}", self.style.newline));
        let format_entry = |part: &EditedEntry<'_>, value: &Value| {
            let key = part.key.as_ref().map(|key| render::flow_key_with_colon(key, style)).unwrap_or_default();
            let pretty =
                indent.filter(|_| style.is_json).and_then(|indent| self.pretty_json(value, whole.start, indent));
            key + &pretty.unwrap_or_else(|| render::flow(value, style))
        };
        let inside = whole.start + 1..whole.end - 1;
        let gap = |after: usize| elements[after].end..elements.get(after + 1).map_or(inside.end, |next| next.start);
        let Some((first, last)) = elements.first().zip(elements.last()).filter(|_| !parts.is_empty()) else {
            let new = parts.iter().map(|part| Some(format_entry(part, part.new_value?)));
            let new: Option<Vec<String>> = new.collect();
            let head = inside.start..elements.first().map_or(inside.end, |first| first.start);
            let comments =
                [head].into_iter().chain((0..elements.len()).map(gap)).any(|gap| self.text[gap].contains('#'));
            return (!comments).then_some(vec![(inside, new?.join(&separator))]);
        };
        // The text between two old entries stays with the earlier entry. After a new entry, use `separator` instead.
        let mut is_dropped = vec![true; elements.len() - 1];
        let (mut out, mut previous) = (String::new(), None::<usize>);
        for (number, part) in parts.iter().enumerate() {
            match previous.filter(|at| *at < is_dropped.len()) {
                _ if number == 0 => {}
                Some(at) => {
                    out += &self.text[gap(at)];
                    is_dropped[at] = false;
                }
                None => out += &separator,
            }
            out += &match (part.new_value, part.old_index) {
                (Some(value), _) => format_entry(part, value),
                (None, Some(at)) => splice_inside(self.text, elements[at].clone(), &part.inner_splices)?,
                (None, None) => return None,
            };
            previous = part.old_index;
        }
        let comments = is_dropped.iter().enumerate().any(|(at, dropped)| *dropped && self.text[gap(at)].contains('#'));
        (!comments).then_some(vec![(first.start..last.end, out)])
    }

    fn flow_style(&self, node: usize) -> FlowStyle {
        let mut keys = self.tree.children(node).map(|(key, _)| key).peekable();
        let is_quoted = |key: usize| self.text[self.tree.nodes[key].content()].starts_with(['"', '\'']);
        let has_quoted_keys = keys.peek().is_some() && keys.all(|key| key.is_some_and(is_quoted));
        let is_json = self.style.is_json || has_quoted_keys;
        FlowStyle { is_json, comma: if is_json && !self.style.spaced { "," } else { ", " } }
    }

    /// Returns the indentation of the line that begins at `at`; `None` if other text precedes `at` on its line.
    fn line_indent(&self, at: usize) -> Option<&str> {
        let line = text_before_on_line(self.text, at);
        (line.len() < at && line.trim().is_empty()).then_some(line)
    }

    /// Renders a value as JSON with one entry per line, like the entries of the collection that begins at `opening`.
    fn pretty_json(&self, value: &Value, opening: usize, indent: &str) -> Option<String> {
        let line = text_before_on_line(self.text, opening);
        let unit = indent.get(line.len() - line.trim_start().len()..).filter(|unit| !unit.is_empty());
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.unwrap_or("  ").as_bytes());
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter)).ok()?;
        Some(String::from_utf8_lossy(&out).replace('\n', &format!("{}{indent}", self.style.newline)))
    }
}

//! Edits in flow style and JSON: `[a, b]`, `{a: b}`, on one line or with one entry per line.

use super::lines::line_before;
use super::render::{self, FlowStyle};
use super::splicer::{EntryEdit, Splice, Splicer, apply_splices};
use serde::Serialize;
use serde_json::Value;
use std::ops::Range;

/// Layout of the entries of a collection in brackets.
#[derive(Debug)]
struct FlowLayout<'a> {
    style: FlowStyle,
    /// The indentation of the entries, if each entry has its own line.
    indent: Option<&'a str>,
    /// The additional indentation per level, for JSON with one entry per line.
    unit: &'a str,
    newline: &'static str,
}

impl Splicer<'_> {
    /// Returns the splices for a collection in brackets, or `None` if a splice would remove a comment.
    pub(super) fn flow_splices(&self, node: usize, parts: Vec<EntryEdit<'_>>) -> Option<Vec<Splice>> {
        let whole = self.tree.nodes[node].content();
        // Do not edit an object without braces, such as the object in `[a: b]`.
        self.text[whole.clone()].starts_with(['[', '{']).then_some(())?;
        let elements = self.tree.children(node).map(|(key, value)| {
            let (start, end) = (self.tree.nodes[value].start(), self.tree.nodes[value].content().end);
            key.map(|key| &self.tree.nodes[key]).map_or(start..end, |key| key.start()..key.content().end.max(end))
        });
        let elements: Vec<Range<usize>> = elements.collect();
        let layout = self.flow_layout(node, elements.first().map_or(0, |first| first.start));
        let separator = layout.separator();

        let inside = whole.start + 1..whole.end - 1;
        let gap = |after: usize| elements[after].end..elements.get(after + 1).map_or(inside.end, |next| next.start);
        let Some((first, last)) = elements.first().zip(elements.last()).filter(|_| !parts.is_empty()) else {
            let new = parts.iter().map(|part| Some(layout.format_entry(part, part.new_value?)));
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
                (Some(value), _) => layout.format_entry(part, value),
                (None, Some(at)) => apply_splices(self.text, elements[at].clone(), &part.inner_splices)?,
                (None, None) => return None,
            };
            previous = part.old_index;
        }
        let comments = is_dropped.iter().enumerate().any(|(at, dropped)| *dropped && self.text[gap(at)].contains('#'));
        (!comments).then_some(vec![(first.start..last.end, out)])
    }

    fn flow_layout(&self, node: usize, first: usize) -> FlowLayout<'_> {
        let (whole, mut keys) =
            (self.tree.nodes[node].content(), self.tree.children(node).map(|(key, _)| key).peekable());
        let is_quoted = |key: usize| self.text[self.tree.nodes[key].content()].starts_with(['"', '\'']);
        let has_quoted_keys = keys.peek().is_some() && keys.all(|key| key.is_some_and(is_quoted));
        let json = self.style.is_json || has_quoted_keys;
        let line = self.text[..first].trim_end_matches([' ', '\t']);
        let indent = (line.ends_with('\n') && first > whole.start).then(|| &self.text[line.len()..first]);
        let unit = indent.and_then(|indent| {
            let opening = line_before(self.text, whole.start);
            indent.get(opening.len() - opening.trim_start().len()..)
        });
        FlowLayout {
            style: FlowStyle { is_json: json, spaced: !json || self.style.spaced },
            indent,
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  "),
            newline: self.style.newline,
        }
    }
}

impl FlowLayout<'_> {
    fn format_entry(&self, part: &EntryEdit<'_>, value: &Value) -> String {
        let key = part.key.as_ref().map(|key| render::flow_key(key, self.style)).unwrap_or_default();
        key + &match self.indent {
            Some(indent) if self.style.is_json => self.format_pretty(value, indent),
            _ => render::flow(value, self.style),
        }
    }

    /// Renders a value as JSON with one entry per line, like the surrounding document.
    fn format_pretty(&self, value: &Value, indent: &str) -> String {
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        if value.serialize(&mut serializer).is_err() {
            return render::flow(value, self.style);
        }
        String::from_utf8_lossy(&out).replace('\n', &format!("{}{indent}", self.newline))
    }

    fn separator(&self) -> String {
        match (self.indent, self.style.spaced) {
            (Some(indent), _) => format!(",{}{indent}", self.newline),
            (None, true) => ", ".to_owned(),
            (None, false) => ",".to_owned(),
        }
    }
}

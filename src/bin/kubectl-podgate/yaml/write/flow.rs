//! Edits in flow style and in JSON: `[a, b]`, `{a: b}`, on one line or with an entry on each.

use super::super::spans::{Kind, Tree};
use super::render::{self, Flow};
use super::text::{before, replaced};
use serde::Serialize;
use serde_json::Value;
use std::ops::Range;

/// A flow collection in a text.
#[derive(Debug)]
pub(crate) struct Collection<'a> {
    text: &'a str,
    whole: Range<usize>,
    /// Its entries: `key: value`, or items.
    elements: Vec<Range<usize>>,
    flow: Flow,
    /// Its entries stand on lines of their own: with this in front.
    indent: Option<&'a str>,
}

/// An entry to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Element<'a> {
    Field(&'a str, &'a Value),
    Item(&'a Value),
}

impl<'a> Collection<'a> {
    pub(crate) fn new(text: &'a str, tree: &Tree, node: usize, json: bool) -> Option<Collection<'a>> {
        let whole = tree.node(node).content.clone();
        let ends = |node: usize| tree.node(node).content.end;
        let elements: Vec<Range<usize>> = match &tree.node(node).kind {
            Kind::List { flow: true, items } => items.iter().map(|item| tree.node(*item).start..ends(*item)).collect(),
            Kind::Object { flow: true, entries } => {
                entries.iter().map(|(key, value)| tree.node(*key).start..ends(*key).max(ends(*value))).collect()
            }
            _ => return None,
        };
        // Not those that are in no brackets: `[a: b]`.
        if !text[whole.clone()].starts_with(['[', '{']) {
            return None;
        }
        let quoted = |node: usize| matches!(tree.node(node).kind, Kind::Scalar { quoted: true, .. });
        let json = json
            || matches!(&tree.node(node).kind, Kind::Object { entries, .. } if entries.iter().all(|(key, _)| quoted(*key)) && !entries.is_empty());
        let indent = elements.first().map(|first| before(text, first.start));
        let indent = indent.filter(|indent| indent.trim().is_empty());
        let spaced = !json || text.contains("\": ") || text.contains("\" :") || !text.contains("\":");
        Some(Collection { text, whole, elements, flow: Flow { json, spaced }, indent })
    }

    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    fn render(&self, element: Element<'_>) -> String {
        match (element, self.indent) {
            (Element::Field(key, value), Some(indent)) if self.flow.json => {
                let blank = if self.flow.spaced { " " } else { "" };
                format!("{}:{blank}{}", render::text(key, true), self.pretty(value, indent))
            }
            (Element::Item(value), Some(indent)) if self.flow.json => self.pretty(value, indent),
            (Element::Field(key, value), _) => render::flow_field(key, value, &self.flow),
            (Element::Item(value), _) => render::flow(value, &self.flow),
        }
    }

    /// In JSON with an entry on each line, as the document around it is.
    fn pretty(&self, value: &Value, indent: &str) -> String {
        let opening = before(self.text, self.whole.start);
        let outer = opening.len() - opening.trim_start().len();
        let unit = indent.get(outer..).filter(|unit| !unit.is_empty()).unwrap_or("  ");
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        if value.serialize(&mut serializer).is_err() {
            return render::flow(value, &self.flow);
        }
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        String::from_utf8_lossy(&out).replace('\n', &format!("{newline}{indent}"))
    }

    fn separator(&self) -> String {
        match (self.indent, self.flow.spaced) {
            (Some(indent), _) if self.text.contains("\r\n") => format!(",\r\n{indent}"),
            (Some(indent), _) => format!(",\n{indent}"),
            (None, true) => ", ".to_owned(),
            (None, false) => ",".to_owned(),
        }
    }

    /// A new entry before that with this index, or behind the last.
    pub(crate) fn insert(&self, index: usize, element: Element<'_>) -> String {
        let new = self.render(element);
        match (self.elements.get(index), self.elements.last()) {
            (Some(next), _) => replaced(self.text, next.start..next.start, &format!("{new}{}", self.separator())),
            (None, Some(last)) => replaced(self.text, last.end..last.end, &format!("{}{new}", self.separator())),
            (None, None) => {
                let brackets = if self.text[self.whole.clone()].starts_with('[') { ('[', ']') } else { ('{', '}') };
                replaced(self.text, self.whole.clone(), &format!("{}{new}{}", brackets.0, brackets.1))
            }
        }
    }

    /// Another entry in the place of this one.
    pub(crate) fn set(&self, index: usize, element: Element<'_>) -> Option<String> {
        Some(replaced(self.text, self.elements.get(index)?.clone(), &self.render(element)))
    }

    /// One entry less. Not where comments stand among them.
    pub(crate) fn remove(&self, index: usize) -> Option<String> {
        let element = self.elements.get(index)?;
        let (range, around) =
            match (index.checked_sub(1).and_then(|index| self.elements.get(index)), self.elements.get(index + 1)) {
                (_, Some(next)) => (element.start..next.start, element.end..next.start),
                (Some(previous), None) => (previous.end..element.end, previous.end..element.start),
                (None, None) => {
                    let inside = self.whole.start + 1..self.whole.end - 1;
                    let rest =
                        format!("{}{}", &self.text[inside.start..element.start], &self.text[element.end..inside.end]);
                    return (!rest.contains('#')).then(|| replaced(self.text, inside, ""));
                }
            };
        (!self.text[around].contains('#')).then(|| replaced(self.text, range, ""))
    }

    /// Takes an entry out and puts it elsewhere; separators stay where they are.
    pub(crate) fn shift(&self, from: usize, to: usize) -> Option<String> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        (from < order.len() && to < order.len()).then(|| {
            let moved = order.remove(from);
            order.insert(to, moved);
        })?;
        let mut out = self.text[..self.elements[0].start].to_owned();
        for (slot, element) in order.into_iter().enumerate() {
            out.push_str(&self.text[self.elements[element].clone()]);
            let next = self.elements.get(slot + 1).map_or(self.text.len(), |next| next.start);
            out.push_str(&self.text[self.elements[slot].end..next]);
        }
        Some(out)
    }
}

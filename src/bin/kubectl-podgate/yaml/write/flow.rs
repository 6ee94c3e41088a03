//! Edits in flow style and JSON: `[a, b]`, `{a: b}`, on one line or with one entry per line.

use super::super::spans::NodeKind;
use super::lines::line_before;
use super::render::{self, FlowStyle};
use super::splicer::{EntryEdit, Splice, Splicer};
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
        let whole = self.tree.node(node).content.clone();
        // The object in `[a: b]` has no braces.
        self.text[whole.clone()].starts_with(['[', '{']).then_some(())?;
        let elements = self.tree.children(node).into_iter().map(|(key, value)| {
            let (start, end) = (self.tree.node(value).start, self.tree.node(value).content.end);
            key.map(|key| self.tree.node(key)).map_or(start..end, |key| key.start..key.content.end.max(end))
        });
        let elements: Vec<Range<usize>> = elements.collect();
        let layout = self.flow_layout(node, elements.first().map_or(0, |first| first.start));
        let separator = layout.separator();

        let kept: Vec<usize> = parts.iter().filter_map(|part| part.old_index).collect();
        let moved = !kept.is_sorted();
        let inside = whole.start + 1..whole.end - 1;
        let Some(last) = kept.iter().max() else {
            let new: Option<Vec<String>> =
                parts.iter().map(|part| Some(layout.format_entry(part, part.new_value?))).collect();
            let ends = elements.iter().map(|element| element.end);
            let starts = elements.iter().map(|element| element.start).chain([inside.end]);
            let mut between = [inside.start].into_iter().chain(ends).zip(starts);
            let all = elements.first().zip(elements.last()).filter(|_| !parts.is_empty());
            let all = all.map_or(inside.clone(), |(first, last)| first.start..last.end);
            let comments = between.any(|(from, to)| self.text[from..to].contains('#'));
            return (!comments).then_some(vec![(all, new?.join(&separator))]);
        };
        let mut out = Vec::new();
        let no_comment = |range: &Range<usize>| (!self.text[range.clone()].contains('#')).then_some(());
        for index in (0..elements.len()).filter(|index| !kept.contains(index)) {
            // Also remove the separator after the entry, or the separator before the entry if no kept entry follows.
            let (range, around) = if index < *last {
                (elements[index].start..elements[index + 1].start, elements[index].end..elements[index + 1].start)
            } else {
                (elements[index - 1].end..elements[index].end, elements[index - 1].end..elements[index].start)
            };
            no_comment(&around)?;
            out.push((range, String::new()));
        }
        let (mut new, mut pieces) = (String::new(), Vec::new());
        for mut part in parts {
            let Some(index) = part.old_index else {
                new += &layout.format_entry(&part, part.new_value?);
                new += &separator;
                continue;
            };
            if let Some(value) = part.new_value {
                part.inner_splices.push((elements[index].clone(), layout.format_entry(&part, value)));
            }
            if moved {
                pieces.push(
                    std::mem::take(&mut new) + &self.apply_splices(elements[index].clone(), &part.inner_splices)?,
                );
            } else {
                let at = elements[index].start;
                out.push((at..at, std::mem::take(&mut new)));
                out.extend(part.inner_splices);
            }
        }
        if moved {
            // Only the entries move, not the separators.
            out = self.splice_moved(kept.into_iter().map(|index| elements[index].clone()).collect(), pieces, out)?;
        }
        if let Some(new) = new.strip_suffix(&separator) {
            let at = elements.last()?.end;
            out.push((at..at, format!("{separator}{new}")));
        }
        Some(out)
    }

    fn flow_layout(&self, node: usize, first: usize) -> FlowLayout<'_> {
        let whole = &self.tree.node(node).content;
        let quoted = |node: usize| matches!(self.tree.node(node).kind, NodeKind::Scalar { quoted: true, .. });
        let keys = |entries: &[(usize, usize)]| !entries.is_empty() && entries.iter().all(|(key, _)| quoted(*key));
        let json = self.style.is_json
            || matches!(&self.tree.node(node).kind, NodeKind::Object { entries, .. } if keys(entries));
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

//! Edits in block style, by whole lines. `None`: not written in a way that lines can be told apart here; the library does it then.

use super::super::spans::{Kind, Tree};
use super::render::{self, Style};
use super::text::{
    before, begins_line, behind, column, is_trivia, line_end, line_start, lines_inserted, lines_removed, replaced,
    with_comments,
};
use serde_json::Value;

/// A document that is being edited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sheet<'a> {
    pub(crate) text: &'a str,
    pub(crate) tree: &'a Tree,
    pub(crate) style: &'a Style,
}

/// Fields that a reader expects before others.
const BEFORE: [(&str, &str); 4] =
    [("initContainers", "containers"), ("command", "args"), ("metadata", "spec"), ("serviceAccountName", "containers")];

impl<'a> Sheet<'a> {
    /// Where the content of a node ends: behind its last word, or the `:` or `-` of one that is empty.
    fn end(&self, node: usize) -> usize {
        self.tree.node(node).content.end
    }

    fn entries(&self, object: usize) -> &'a [(usize, usize)] {
        match &self.tree.node(object).kind {
            Kind::Object { entries, .. } => entries,
            _ => &[],
        }
    }

    fn items(&self, list: usize) -> &'a [usize] {
        match &self.tree.node(list).kind {
            Kind::List { items, .. } => items,
            _ => &[],
        }
    }

    /// A new field of an object that has some.
    pub(crate) fn add_field(&self, object: usize, key: &str, value: &Value) -> Option<String> {
        let entries = self.entries(object);
        let first = self.tree.node(entries.first()?.0).start;
        let column = column(self.text, first)?;
        let lines = render::field(key, value, column, self.style);
        let follower = BEFORE.iter().find(|(new, _)| *new == key).and_then(|(_, follower)| {
            let index = entries.iter().position(
                |(name, _)| matches!(&self.tree.node(*name).kind, Kind::Scalar { text, .. } if text == follower),
            )?;
            let start = self.tree.node(entries[index].0).start;
            let bound = match index.checked_sub(1) {
                Some(previous) => line_end(self.text, self.end(entries[previous].1)),
                None => self.above(start),
            };
            // The first may stand behind a dash.
            begins_line(self.text, start).then(|| with_comments(self.text, start, bound))
        });
        let at = follower.unwrap_or_else(|| line_end(self.text, self.end(object)));
        Some(lines_inserted(self.text, at, &lines, self.style.newline))
    }

    /// The end of the `:` behind a key on the key's own line.
    fn colon(&self, key: usize) -> Option<usize> {
        let end = self.tree.node(key).content.end;
        let rest = &self.text[end..];
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        (rest[blanks..].starts_with(':') && !before(self.text, self.tree.node(key).start).contains('?'))
            .then_some(end + blanks + 1)
    }

    /// A field's new value.
    pub(crate) fn set_value(&self, key: usize, value: usize, new: &Value) -> Option<String> {
        let colon = self.colon(key)?;
        let column = column(self.text, self.tree.node(key).start)?;
        let old = self.tree.node(value);
        let (start, end) = (old.start.max(colon), old.content.end.max(colon));
        let same_line = line_start(self.text, start) == line_start(self.text, colon);
        let block = matches!(old.kind, Kind::Scalar { block: true, .. });
        let rest = behind(self.text, end);
        if !is_trivia(rest) && start != end {
            return None;
        }
        match render::below(new, column, self.style) {
            None if same_line && start < end => Some(replaced(self.text, start..end, &render::inline(new))),
            None if same_line => Some(replaced(self.text, colon..colon, &format!(" {}", render::inline(new)))),
            None => {
                // The key's own line keeps its comment, and the lines of the old value go.
                let without = lines_removed(self.text, line_start(self.text, start)..line_end(self.text, end));
                Some(replaced(&without, colon..colon, &format!(" {}", render::inline(new))))
            }
            Some(lines) if same_line => {
                let comment = if block { "" } else { rest.trim_end() };
                let comment = if start == end { behind(self.text, colon).trim_end() } else { comment };
                let whole = colon..line_end(self.text, end);
                let lines = format!("{comment}{}{lines}", self.style.newline);
                Some(self.ending(whole, lines))
            }
            Some(lines) if old.start == old.content.start => {
                Some(self.ending(line_start(self.text, start)..line_end(self.text, end), lines))
            }
            Some(_) => None,
        }
    }

    /// Replaces whole lines by whole lines; the last line of the text keeps its missing line end.
    fn ending(&self, range: std::ops::Range<usize>, lines: String) -> String {
        let open = range.end == self.text.len() && !self.text.ends_with('\n');
        let lines = if open { lines.strip_suffix(self.style.newline).unwrap_or(&lines) } else { &lines };
        replaced(self.text, range, lines)
    }

    /// Takes a field away; of an object that has more.
    pub(crate) fn remove_field(&self, object: usize, key: usize) -> Option<String> {
        let entries = self.entries(object);
        let index = entries.iter().position(|(name, _)| *name == key)?;
        let start = self.tree.node(key).start;
        // Of `? key` the value has a line of its own.
        let marked = before(self.text, start).trim() == "?";
        let colon = if marked { self.tree.node(key).content.end } else { self.colon(key)? };
        let end = self.end(entries[index].1).max(colon);
        if marked || begins_line(self.text, start) {
            return Some(lines_removed(self.text, line_start(self.text, start)..line_end(self.text, end)));
        }
        let next = self.tree.node(entries.get(index + 1)?.0).start;
        let between = &self.text[line_end(self.text, end).min(next)..next];
        let same_column = column(self.text, start)? == column(self.text, next)?;
        (same_column && between.trim().is_empty()).then(|| replaced(self.text, start..next, ""))
    }

    /// Where an item's dash is.
    pub(crate) fn dash(&self, item: usize) -> Option<usize> {
        let node = self.tree.node(item);
        let start = node.start;
        let prefix = before(self.text, start);
        if prefix.trim_end().ends_with('-') {
            return Some(line_start(self.text, start) + prefix.trim_end().len() - 1);
        }
        let mut line = line_start(self.text, start);
        if !prefix.trim().is_empty() {
            // An empty item, as the parser has it, stands behind its comment.
            let lead = prefix.len() - prefix.trim_start_matches([' ', '-']).len();
            let dash = prefix[..lead].rfind('-')?;
            return (node.content.is_empty() && is_trivia(&prefix[dash + 1..])).then_some(line + dash);
        }
        while line > 0 {
            line = line_start(self.text, line - 1);
            let code = behind(self.text, line);
            let dashes = code.trim_start_matches([' ', '-']);
            let lead = &code[..code.len() - dashes.len()];
            match lead.rfind('-') {
                Some(dash) if is_trivia(&code[dash + 1..]) => return Some(line + dash),
                None if is_trivia(code) || code.trim_start().starts_with('#') => {}
                _ => return None,
            }
        }
        None
    }

    /// Where an item ends. Of an empty one the parser only knows what comes next.
    fn item_end(&self, item: usize, dash: usize) -> usize {
        let node = self.tree.node(item);
        if node.content.is_empty() { dash + 1 } else { node.content.end.max(dash + 1) }
    }

    /// Where item `index` begins, the comments above it included; where no list stands behind another dash.
    fn item_start(&self, items: &[usize], index: usize) -> Option<usize> {
        let dash = self.dash(items[index])?;
        let bound = match index.checked_sub(1) {
            Some(previous) => line_end(self.text, self.item_end(items[previous], self.dash(items[previous])?)),
            // The line of the list's key, or whatever is above.
            None => self.above(dash),
        };
        begins_line(self.text, dash).then(|| with_comments(self.text, dash, bound))
    }

    /// The line below the first one above `at` that is neither blank nor a comment.
    fn above(&self, at: usize) -> usize {
        let mut line = line_start(self.text, at);
        while line > 0 {
            let previous = line_start(self.text, line - 1);
            let code = behind(self.text, previous).trim();
            if !code.is_empty() && !code.starts_with('#') {
                break;
            }
            line = previous;
        }
        line
    }

    /// A new item of a list that has some.
    pub(crate) fn add_item(&self, list: usize, index: usize, value: &Value) -> Option<String> {
        let items = self.items(list);
        let dash = self.dash(*items.first()?)?;
        let column = column(self.text, dash)?;
        let lines = render::item(value, column, self.style);
        if index == 0 && !begins_line(self.text, dash) {
            // Behind another dash: the new one takes its place there.
            return Some(replaced(self.text, dash..dash, &format!("{}{:column$}", &lines[column..], "")));
        }
        let at = if index < items.len() {
            self.item_start(items, index)?
        } else {
            let last = *items.last()?;
            line_end(self.text, self.item_end(last, self.dash(last)?))
        };
        Some(lines_inserted(self.text, at, &lines, self.style.newline))
    }

    /// An item's new value.
    pub(crate) fn set_item(&self, list: usize, index: usize, value: &Value) -> Option<String> {
        let item = *self.items(list).get(index)?;
        let dash = self.dash(item)?;
        let node = self.tree.node(item);
        let end = self.item_end(item, dash);
        let scalar = !matches!(node.kind, Kind::List { flow: false, .. } | Kind::Object { flow: false, .. });
        let simple = value.as_object().is_none_or(serde_json::Map::is_empty);
        if scalar && simple && node.start < end && line_start(self.text, node.start) == line_start(self.text, dash) {
            return Some(replaced(self.text, node.start..end, &render::inline(value)));
        }
        let column = column(self.text, dash)?;
        let mut lines = render::item(value, column, self.style)[column..].to_owned();
        let rest = behind(self.text, end).trim_end();
        if !is_trivia(rest) {
            return None;
        }
        if scalar {
            // The comment is not the old value's own, and goes on the new one's first line.
            let first = lines.find(['\r', '\n']).unwrap_or(lines.len());
            lines.insert_str(first, rest);
        }
        Some(self.ending(dash..line_end(self.text, end), lines))
    }

    /// Takes an item away; of a list that has more.
    pub(crate) fn remove_item(&self, list: usize, index: usize) -> Option<String> {
        let item = *self.items(list).get(index)?;
        let dash = self.dash(item)?;
        let end = line_end(self.text, self.item_end(item, dash));
        if begins_line(self.text, dash) {
            return Some(lines_removed(self.text, line_start(self.text, dash)..end));
        }
        let next = self.dash(*self.items(list).get(index + 1)?)?;
        self.text[end..next].trim().is_empty().then(|| replaced(self.text, dash..next, ""))
    }

    /// Takes item `from` out and puts it to `to`, with the comments directly above it.
    pub(crate) fn move_item(&self, list: usize, from: usize, to: usize) -> Option<String> {
        let items = self.items(list);
        // A list behind another dash: its first item can't take the line's beginning along, so no item does.
        let first = self.dash(*items.first()?)?;
        let (inline, column) = (!begins_line(self.text, first), column(self.text, first)?);
        let mut ranges = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let dash = self.dash(*item)?;
            let start = if inline { dash } else { self.item_start(items, index)? };
            ranges.push(start..line_end(self.text, self.item_end(*item, dash)));
        }
        let mut order: Vec<usize> = (0..items.len()).collect();
        let moved = order.remove(from);
        order.insert(to, moved);
        let (start, end) = (ranges.first()?.start, ranges.last()?.end);
        let mut lines = String::new();
        for (slot, item) in order.into_iter().enumerate() {
            let part = &self.text[ranges[item].clone()];
            let (comments, rest) =
                part.split_at(line_start(self.text, self.dash(items[item])?).saturating_sub(ranges[item].start));
            // Behind a block scalar a comment that stands further in would be a line of that.
            for line in comments.split_inclusive('\n') {
                let deeper = line.len() - line.trim_start_matches(' ').len() > column;
                let line = if deeper { line.trim_start_matches(' ') } else { line };
                let indent = if deeper { column } else { 0 };
                lines.push_str(&format!("{:indent$}{line}", ""));
            }
            lines.push_str(rest);
            if !part.ends_with('\n') {
                lines.push_str(self.style.newline);
            }
            // Blank lines between items stay where they are.
            if let Some(next) = ranges.get(slot + 1) {
                lines.push_str(&self.text[ranges[slot].end..next.start]);
            }
        }
        Some(self.ending(start..end, lines))
    }
}

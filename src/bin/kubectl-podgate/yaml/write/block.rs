//! Edits of whole lines in block style. The functions return `None` if the layout does not allow such edits.

use super::lines::{
    begins_line, column, comments_start, dash_position, deeper_comments_end, is_blank_or_comment, line_start,
    next_line_start, text_after_on_line, text_before_on_line,
};
use super::splicer::{EditedEntry, Splice, Splicer, splice_inside};
use serde_json::Value;
use std::ops::Range;

impl Splicer<'_> {
    pub(super) fn object_splices(&self, object: usize, parts: Vec<EditedEntry<'_>>) -> Option<Vec<Splice>> {
        let entries = self.tree.children(object).map(|(key, value)| Some((key?, value)));
        let entries: Vec<(usize, usize)> = entries.collect::<Option<_>>()?;
        let column = column(self.text, self.tree.nodes[entries.first()?.0].start())?;
        let lines = entries.iter().map(|(key, value)| {
            let name = &self.tree.nodes[*key];
            let end = self.tree.nodes[*value].content().end.max(self.colon_end(*key).unwrap_or(name.content().end));
            name.start()..next_line_start(self.text, end)
        });
        let lines: Vec<Range<usize>> = lines.collect();
        let mut out = self.removal_splices(&lines, &parts)?;
        let (mut new, mut last) = (String::new(), None);
        for part in parts {
            let Some(index) = part.old_index else {
                new += &self.style.entry(part.key.as_deref(), part.new_value?, column, 0);
                continue;
            };
            out.push(self.insertion_before(&lines, index, last.is_none(), std::mem::take(&mut new))?);
            last = Some(index);
            out.extend(part.inner_splices);
            let Some(value) = part.new_value else { continue };
            match self.value_splices(entries[index], value) {
                Some(splices) => out.extend(splices),
                None if self.text[lines[index].clone()].contains('#') => return None,
                None => {
                    let block_levels = self.block_levels_inside(entries[index].1);
                    let field = self.style.entry(part.key.as_deref(), value, column, block_levels);
                    out.push((lines[index].clone(), field[column..].to_owned()));
                }
            }
        }
        // If a list moves, the comments of its items move too. These comments can be below the last line of the object.
        let end = out.iter().map(|(at, _)| at.end).fold(lines.last()?.end, usize::max);
        out.push((end..end, new));
        Some(out)
    }

    /// Returns the splices that remove the lines of deleted entries.
    fn removal_splices(&self, lines: &[Range<usize>], parts: &[EditedEntry<'_>]) -> Option<Vec<Splice>> {
        let mut kept = vec![false; lines.len()];
        parts.iter().filter_map(|part| part.old_index).for_each(|index| kept[index] = true);
        // If the first entry follows a dash, the first kept entry moves to the place after the dash.
        let first = kept.iter().position(|kept| *kept).filter(|_| !begins_line(self.text, lines[0].start));
        let mut out = Vec::new();
        for index in (0..lines.len()).filter(|index| !kept[*index]) {
            match first.filter(|first| index < *first) {
                None => out.push((line_start(self.text, lines[index].start)..lines[index].end, String::new())),
                Some(first) => {
                    let between = self.text.get(lines[index].end..lines[index + 1].start)?;
                    let replaced = if index == 0 { lines[0].start..lines[first].start } else { continue };
                    between.trim().is_empty().then(|| out.push((replaced, String::new())))?;
                }
            }
        }
        Some(out)
    }

    /// Returns the splice that inserts new entries before the entry at `index`, above the comments of that entry.
    /// Returns `None` if the first entry follows a dash on its line: no line fits between the dash and the entry.
    fn insertion_before(&self, lines: &[Range<usize>], index: usize, first: bool, new: String) -> Option<Splice> {
        let start = lines[0].start;
        if new.is_empty() {
            return Some((start..start, new));
        }
        (!first || begins_line(self.text, start)).then_some(())?;
        let at = self.entry_start(lines, index)?;
        Some((at..at, new))
    }

    /// Returns the start of an entry and of the comments above the entry. The entry must begin a line.
    fn entry_start(&self, lines: &[Range<usize>], index: usize) -> Option<usize> {
        let start = lines[index].start;
        // Comments that belong to the previous entry do not belong to this one.
        let bound = index.checked_sub(1).map_or(0, |previous| lines[previous].end);
        begins_line(self.text, start).then(|| comments_start(self.text, start, bound))
    }

    /// Returns the end of the `:` that follows a key on the same line.
    fn colon_end(&self, key: usize) -> Option<usize> {
        let end = self.tree.nodes[key].content().end;
        let rest = &self.text[end..];
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        rest[blanks..].starts_with(':').then_some(end + blanks + 1)
    }

    fn value_splices(&self, (key, value): (usize, usize), new: &Value) -> Option<Vec<Splice>> {
        let colon = self.colon_end(key)?;
        let column = column(self.text, self.tree.nodes[key].start())?;
        let old = &self.tree.nodes[value];
        let (start, end) = (old.start().max(colon), old.content().end.max(colon));
        let same_line = line_start(self.text, start) == line_start(self.text, colon);
        let rest = text_after_on_line(self.text, end);
        if !is_blank_or_comment(rest) && start != end {
            return None;
        }
        let lines = line_start(self.text, start)..next_line_start(self.text, end);
        let value_column = text_before_on_line(self.text, colon).chars().count() + 1;
        let (head, below) = self.style.value(new, value_column, column, false, self.block_levels_inside(value));
        let spaced = || if head.is_empty() { String::new() } else { format!(" {head}") };
        if !same_line {
            // Comments between the key and the old value stay above the new lines.
            let has_anchor = old.start() != old.content().start;
            let fits = below.is_empty() || head.is_empty() && !has_anchor;
            return fits.then(|| vec![(colon..colon, spaced()), (lines, below)]);
        }
        // A comment behind the old value stays behind the new text.
        let replaced = match () {
            () if head.is_empty() => (colon..end + rest.len(), rest.trim_end().to_owned()),
            () if start == end => (colon..end, spaced()),
            () => (start..end, head),
        };
        Some(vec![replaced, (lines.end..lines.end, below)])
    }

    pub(super) fn list_splices(&self, list: usize, parts: Vec<EditedEntry<'_>>) -> Option<Vec<Splice>> {
        let items: Vec<usize> = self.tree.children(list).map(|(_, item)| item).collect();
        let lines = items.iter().map(|item| {
            let dash = dash_position(self.text, &self.tree.nodes[*item])?;
            Some(dash..next_line_start(self.text, self.item_end(*item, dash)))
        });
        let mut lines: Vec<Range<usize>> = lines.collect::<Option<_>>()?;
        let first = lines.first()?.start;
        let column = column(self.text, first)?;
        let moved = !parts.iter().filter_map(|part| part.old_index).is_sorted();
        if moved {
            lines.iter_mut().for_each(|lines| lines.end = deeper_comments_end(self.text, lines.end, column));
        }
        let mut out = self.removal_splices(&lines, &parts)?;
        let (mut new, mut last, mut pieces, mut kept) = (String::new(), None, Vec::new(), Vec::new());
        for mut part in parts {
            let Some(index) = part.old_index else {
                new += &self.style.entry(None, part.new_value?, column, 0);
                continue;
            };
            if let Some(value) = part.new_value {
                part.inner_splices.push(self.item_splice(items[index], &lines[index], column, value)?);
            }
            let new = std::mem::take(&mut new);
            if moved {
                let whole = self.entry_start(&lines, index)?..lines[index].end;
                pieces.push(new + &splice_inside(self.text, whole.clone(), &part.inner_splices)?);
                kept.push(whole);
                continue;
            }
            out.push(self.insertion_before(&lines, index, last.is_none(), new)?);
            last = Some(index);
            out.extend(part.inner_splices);
        }
        // Only the items move, not the blank lines between them.
        kept.sort_by_key(|place: &Range<usize>| place.start);
        out.extend(kept.into_iter().zip(pieces));
        let end = lines.last()?.end;
        out.push((end..end, new));
        Some(out)
    }

    fn item_splice(&self, item: usize, lines: &Range<usize>, column: usize, value: &Value) -> Option<Splice> {
        let (head, below) = self.style.value(value, column + 2, column, true, self.block_levels_inside(item));
        // A comment behind the old item stays on the first line.
        let rest = text_after_on_line(self.text, self.item_end(item, lines.start)).trim_end();
        is_blank_or_comment(rest).then(|| (lines.clone(), format!("- {head}{rest}{}{below}", self.style.newline)))
    }

    /// Returns the end of an item. For an empty item, returns the end of the dash, because the parser reports no
    /// position.
    fn item_end(&self, item: usize, dash: usize) -> usize {
        let node = &self.tree.nodes[item];
        if node.content().is_empty() { dash + 1 } else { node.content().end.max(dash + 1) }
    }
}

//! Lines and columns of a text, as byte offsets.

use super::super::spans::Node;

pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the start of the line below the line that contains `at`, or the end of the text.
pub(crate) fn next_line_start(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

pub(crate) fn text_before_on_line(text: &str, at: usize) -> &str {
    &text[line_start(text, at)..at]
}

/// Returns the text from `at` to the end of its line, without the line break.
pub(crate) fn text_after_on_line(text: &str, at: usize) -> &str {
    text[at..next_line_start(text, at)].trim_end_matches(['\n', '\r'])
}

/// Returns the column of the field or item whose key or dash is at `at`. Returns `None` if the text before `at` on its
/// line has characters other than dashes and spaces.
pub(crate) fn column(text: &str, at: usize) -> Option<usize> {
    let before = text_before_on_line(text, at);
    before.bytes().all(|byte| byte == b' ' || byte == b'-').then_some(before.len())
}

/// Returns true if only spaces precede `at` on its line.
pub(crate) fn begins_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(' ');
    before.is_empty() || before.ends_with('\n')
}

pub(crate) fn is_blank_or_comment(rest: &str) -> bool {
    let code = rest.trim_start();
    code.is_empty() || (code.starts_with('#') && (code.len() < rest.len()))
}

/// Returns the start of the comment lines directly above the line of `at`, but not before `bound`.
pub(crate) fn comments_start(text: &str, at: usize, bound: usize) -> usize {
    let mut start = line_start(text, at);
    while start > bound {
        let above = line_start(text, start - 1);
        if above < bound || !text[above..start].trim_start().starts_with('#') {
            break;
        }
        start = above;
    }
    start
}

/// Returns the end of the comment lines directly below `at` that are indented deeper than `column`. These comments
/// belong to the item that ends at `at`.
pub(crate) fn deeper_comments_end(text: &str, at: usize, column: usize) -> usize {
    let (mut end, mut next_line) = (at, at);
    for line in text[at..].split_inclusive('\n') {
        let code = line.trim_start_matches(' ');
        next_line += line.len();
        match code.starts_with('#') && line.len() - code.len() > column {
            true => end = next_line,
            false if code.trim().is_empty() => {}
            false => break,
        }
    }
    end
}

pub(crate) fn dash_position(text: &str, node: &Node) -> Option<usize> {
    let start = node.start();
    let mut prefix = text_before_on_line(text, start);
    if node.content().is_empty() {
        // For an empty item, the parser reports a position after the comment on the item's line.
        prefix = prefix.split(" #").next().unwrap_or(prefix);
    }
    if prefix.trim_end().ends_with('-') {
        return Some(line_start(text, start) + prefix.trim_end().len() - 1);
    }
    let mut line = line_start(text, start);
    if !prefix.trim().is_empty() {
        return None;
    }
    while line > 0 {
        line = line_start(text, line - 1);
        let code = text_after_on_line(text, line);
        let dashes = code.trim_start_matches([' ', '-']);
        let lead = &code[..code.len() - dashes.len()];
        match lead.rfind('-') {
            Some(dash) if is_blank_or_comment(&code[dash + 1..]) => return Some(line + dash),
            None if is_blank_or_comment(code) || code.trim_start().starts_with('#') => {}
            _ => return None,
        }
    }
    None
}

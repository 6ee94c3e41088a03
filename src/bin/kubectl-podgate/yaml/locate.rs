//! Position of a finding in its file.

use super::{Document, Position, SourceError};
use podgate::order::edit::Place;
use podgate::order::finding::Finding;
use std::ops::Range;

#[derive(Debug, Clone)]
pub(crate) struct LocatedFinding<'a> {
    /// The finding, with its place from the root of the document.
    pub(crate) finding: Finding,
    pub(crate) file: &'a str,
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) line: MarkedExcerpt,
}

impl LocatedFinding<'_> {
    /// Formats the finding as `file:line:column: level: message; fix [rule]`.
    pub(crate) fn report(&self) -> String {
        format!("{}: {}", self.start.in_file(self.file), self.finding.line_without_place())
    }
}

/// The printed part of the source line on which a finding begins.
#[derive(Debug, Clone)]
pub(crate) struct MarkedExcerpt {
    pub(crate) text: String,
    /// Byte range of the mark in `text`.
    pub(crate) highlight: Range<usize>,
}

/// Number of bytes shown on each side of the mark in a long line. A manifest may be a single line of megabytes.
const CONTEXT_BYTES: usize = 60;
/// Length of the longest line that is shown completely, in bytes.
const MAX_LINE_BYTES: usize = 300;

/// Locates a finding whose path starts at `template` in `document` of `file`.
pub(crate) fn locate<'a>(finding: Finding, template: &Place, document: &Document, file: &'a str) -> LocatedFinding<'a> {
    let finding = Finding { at: template.join(&finding.at), ..finding };
    let range = document.highlight_word(&finding.at, finding.span.as_ref());
    let line = source_line(&document.text, &range);
    let (start, end) = (document.position(range.start), document.position(range.end));
    LocatedFinding { finding, file, start, end, line }
}

pub(crate) fn locate_error<'a>(document: &Document, error: &SourceError, file: &'a str) -> LocatedFinding<'a> {
    let finding = Finding::error("unreadable", Place::root(), error.message.clone()).fix(error.fix);
    let range = error.offset..document.text.ceil_char_boundary(error.offset + 1);
    let line = source_line(&document.text, &range);
    let start = document.position(error.offset);
    LocatedFinding { finding, file, start, end: start, line }
}

/// Returns the line on which `range` begins, shortened if necessary, with `range` as its mark.
fn source_line(text: &str, range: &Range<usize>) -> MarkedExcerpt {
    let floor = |at: usize| text.floor_char_boundary(at);
    // Limit the search for line ends, because only a part of a very long line is shown.
    let (first, last) =
        (floor(range.start.saturating_sub(2 * MAX_LINE_BYTES)), floor(range.start + 2 * MAX_LINE_BYTES));
    let start = text[first..range.start].rfind('\n').map_or(first, |at| first + at + 1);
    let end = text[range.start..last].find('\n').map_or(last, |at| range.start + at);
    let end = start + text[start..end].trim_end_matches('\r').len();
    let mark = range.start.min(end)..range.end.clamp(range.start.min(end), end);
    let context = if end - start <= MAX_LINE_BYTES { MAX_LINE_BYTES } else { CONTEXT_BYTES };
    let mark_end = floor(mark.end.min(mark.start + MAX_LINE_BYTES));
    let from = floor(mark.start.saturating_sub(context).max(start));
    let to = floor((mark_end + context).min(end));
    let before = if from > start { "…" } else { "" };
    let behind = if to < end { "…" } else { "" };
    let shift = before.len();
    MarkedExcerpt {
        text: format!("{before}{}{behind}", &text[from..to]),
        highlight: mark.start - from + shift..mark_end - from + shift,
    }
}

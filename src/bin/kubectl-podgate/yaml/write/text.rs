//! Lines and columns of a text, by bytes.

use std::ops::Range;

/// Where the line of `at` begins.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where the line of `at` ends, its line end included.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// What stands before `at` on its line.
pub(crate) fn before(text: &str, at: usize) -> &str {
    &text[line_start(text, at)..at]
}

/// What stands behind `at` on its line, without the line end.
pub(crate) fn behind(text: &str, at: usize) -> &str {
    text[at..line_end(text, at)].trim_end_matches(['\n', '\r'])
}

/// The column of the field or item whose key or dash is at `at`; `None` where more than dashes and blanks stand before it. Of `? key`
/// it is the mark's.
pub(crate) fn column(text: &str, at: usize) -> Option<usize> {
    let before = before(text, at);
    let marked = before.trim_end_matches(' ').strip_suffix('?');
    let before = marked.filter(|_| before.ends_with(' ')).unwrap_or(before);
    before.bytes().all(|byte| byte == b' ' || byte == b'-').then_some(before.len())
}

/// Whether nothing but blanks stands before `at`.
pub(crate) fn begins_line(text: &str, at: usize) -> bool {
    before(text, at).bytes().all(|byte| byte == b' ')
}

/// A blank rest of a line, or a comment.
pub(crate) fn is_trivia(rest: &str) -> bool {
    let code = rest.trim_start();
    code.is_empty() || (code.starts_with('#') && (code.len() < rest.len()))
}

/// Where the comment lines directly above the line of `at` begin, but not above `bound`.
pub(crate) fn with_comments(text: &str, at: usize, bound: usize) -> usize {
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

/// `text` with `range` replaced.
pub(crate) fn replaced(text: &str, range: Range<usize>, with: &str) -> String {
    let mut out = String::with_capacity(text.len() + with.len());
    out.push_str(&text[..range.start]);
    out.push_str(with);
    out.push_str(&text[range.end..]);
    out
}

/// `text` with whole lines put at `at`, the beginning of a line or the end of a text that may lack its last line end.
pub(crate) fn lines_inserted(text: &str, at: usize, lines: &str, newline: &str) -> String {
    if at == text.len() && !text.is_empty() && !text.ends_with('\n') {
        let lines = lines.strip_suffix(newline).unwrap_or(lines);
        return format!("{text}{newline}{lines}");
    }
    replaced(text, at..at, lines)
}

/// `text` without the lines of `range`.
pub(crate) fn lines_removed(text: &str, range: Range<usize>) -> String {
    let out = replaced(text, range.clone(), "");
    if range.end == text.len() && !text.ends_with('\n') {
        let shorter = out.strip_suffix("\r\n").or_else(|| out.strip_suffix('\n'));
        return shorter.map(str::to_owned).unwrap_or(out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_and_go_and_the_last_line_stays_as_it_ends() {
        assert_eq!(lines_inserted("a\nb\n", 4, "c\n", "\n"), "a\nb\nc\n");
        assert_eq!(lines_inserted("a\nb", 3, "c\n", "\n"), "a\nb\nc");
        assert_eq!(lines_removed("a\nb\nc", 4..5), "a\nb");
        assert_eq!(lines_removed("a\r\nb\r\nc", 6..7), "a\r\nb");
        assert_eq!(lines_removed("a\nb\nc\n", 4..6), "a\nb\n");
        assert_eq!(lines_removed("a\n\nb", 3..4), "a\n");
    }

    #[test]
    fn comments_above_belong_to_what_follows() {
        let text = "a:\n# far\n\n# near\n  # nearer\n- x\n";
        let at = text.find("- x").unwrap();
        assert_eq!(&text[with_comments(text, at, 0)..], "# near\n  # nearer\n- x\n");
        assert_eq!(with_comments(text, at, at - 2), at);
    }
}

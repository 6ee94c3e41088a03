//! Size of the terminal, and display width of a text.

use std::io::IsTerminal;
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the columns and rows of the terminal on standard output, or `None` if the output is not a terminal.
pub(crate) fn columns_and_rows() -> Option<(usize, usize)> {
    let out = std::io::stdout();
    let found = terminal_size_of(&out).map(|(Width(columns), Height(rows))| (columns.into(), rows.into()));
    // A serial console reports no size. Assume the traditional 80x24.
    found.or_else(|| out.is_terminal().then_some((80, 24)))
}

/// Returns the width of each table column: the width of the widest cell or of the header, whichever is larger.
pub(crate) fn column_widths<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|at| rows.iter().map(|row| row[at].width()).fold(heads[at].len(), usize::max))
}

/// Pads or truncates `text` to exactly `columns`; a truncated text ends with `…`.
pub(crate) fn pad_or_truncate(text: &str, columns: usize) -> String {
    let cut = truncate(text, columns);
    let pad = columns.saturating_sub(cut.width());
    format!("{cut}{:pad$}", "")
}

/// Truncates `text` to at most `columns`, with `…` at the end.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let next = used + c.width().unwrap_or(0);
        if next + 1 > columns {
            break;
        }
        out.push(c);
        used = next;
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_truncation_count_display_columns() {
        for (text, columns, fits) in [
            ("abc", 5, "abc  "),
            ("abcdef", 4, "abc…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本", 4, "日本"),
            ("ab", 0, ""),
        ] {
            assert_eq!(pad_or_truncate(text, columns), fits, "{text} {columns}");
            assert_eq!(pad_or_truncate(text, columns).width(), columns);
        }
        assert_eq!(pad_or_truncate("日本語", 4), "日… ");
    }
}

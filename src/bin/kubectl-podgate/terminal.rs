//! A person's terminal: how wide it is, and how wide a text is on it.

use std::io::IsTerminal;
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns and rows of the terminal that standard output is; `None` if it is none.
pub(crate) fn size() -> Option<(usize, usize)> {
    let out = std::io::stdout();
    let found = terminal_size_of(&out).map(|(Width(columns), Height(rows))| (columns.into(), rows.into()));
    // A terminal that does not say, such as a serial line, is taken for the classic one.
    found.or_else(|| out.is_terminal().then_some((80, 24)))
}

/// How many columns `text` takes.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// The columns that a table takes for each of its own: as many as the widest cell does, or the head.
pub(crate) fn column_widths<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|at| rows.iter().map(|row| display_width(&row[at])).fold(heads[at].len(), usize::max))
}

/// `text` in exactly `columns`, blanks behind it; what is too long is cut, and shows that.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let cut = truncate(text, columns);
    let pad = columns.saturating_sub(display_width(&cut));
    format!("{cut}{:pad$}", "")
}

/// At most `columns` of `text`.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
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
    fn texts_are_cut_and_filled_by_the_columns_they_take() {
        for (text, columns, fits) in [
            ("abc", 5, "abc  "),
            ("abcdef", 4, "abc…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本", 4, "日本"),
            ("ab", 0, ""),
        ] {
            assert_eq!(fit(text, columns), fits, "{text} {columns}");
            assert_eq!(display_width(&fit(text, columns)), columns);
        }
        assert_eq!(fit("日本語", 4), "日… ");
    }
}

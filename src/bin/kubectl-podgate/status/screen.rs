//! Text output of `status -w`: updates in place on a terminal, or one line per change. Pure functions that return text.

use super::text;
use crate::pod::shape::View;
use crate::terminal::{column_widths, pad_or_truncate, truncate};
use podgate::core::text::sanitize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Text on a terminal that each update overwrites.
#[derive(Debug, Default)]
pub(crate) struct LiveScreen {
    drawn_lines: Vec<String>,
}

impl LiveScreen {
    /// Returns the output that replaces the previous text with `text`, on a terminal of this size.
    pub(crate) fn draw(&mut self, text: &str, (columns, rows): (usize, usize)) -> String {
        let up: usize = self.drawn_lines.iter().map(|line| row_count(line, columns)).sum();
        let mut out = if up > 0 { format!("\r\u{1b}[{up}A") } else { String::new() };
        self.drawn_lines.clear();
        let (mut free_rows, mut left) = (rows.saturating_sub(1), text.lines().count());
        for line in text.lines() {
            let needed = row_count(line, columns);
            // The text must fit the screen, because lines that have scrolled off the top cannot be overwritten.
            if needed > free_rows || (needed == free_rows && left > 1) {
                self.drawn_lines.push(truncate(&format!("… {left} more lines: enlarge the window"), columns));
                break;
            }
            (free_rows, left) = (free_rows - needed, left - 1);
            self.drawn_lines.push(line.to_owned());
        }
        for line in &self.drawn_lines {
            let _ = write!(out, "{line}\u{1b}[K\r\n");
        }
        out.push_str("\u{1b}[J");
        out
    }
}

fn row_count(line: &str, columns: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    plain.width().div_ceil(columns.max(1)).max(1)
}

/// Output with one line per change.
#[derive(Debug, Default)]
pub(crate) struct ChangeLines {
    /// The last printed row of each container and of the Pod.
    last_rows: BTreeMap<String, [String; 4]>,
    widths: Option<[usize; 4]>,
}

const HEADERS: [&str; 4] = ["CONTAINER", "PODGATE", "KUBELET", "WAITS FOR"];
const POD_ROW_NAME: &str = "(pod)";

impl ChangeLines {
    /// Returns one line for each changed row, prefixed with `time`.
    pub(crate) fn changed_lines(&mut self, view: &View, time: &str) -> String {
        let row = |row| {
            let [name, state, _, kubelet, waits_for, _] = text::cells(row);
            [name, state, kubelet, waits_for]
        };
        let mut rows: Vec<[String; 4]> = view.containers.iter().map(row).collect();
        let stage = match &view.published {
            _ if view.deleting => "deleting",
            Some(published) => published.stage,
            None => "-",
        };
        rows.push([POD_ROW_NAME, stage, view.pod_phase.as_deref().unwrap_or("-"), ""].map(sanitize));
        let mut out = String::new();
        let widths = *self.widths.get_or_insert_with(|| {
            let mut widths = column_widths(HEADERS, &rows);
            // Make the columns wide enough for the longest state and for the kubelet's usual reasons.
            (widths[1], widths[2]) = (widths[1].max(9), widths[2].max(18));
            write_row(&mut out, &widths, "TIME", &HEADERS.map(str::to_owned));
            widths
        });
        for row in rows {
            if self.last_rows.get(&row[0]) != Some(&row) {
                write_row(&mut out, &widths, time, &row);
                self.last_rows.insert(row[0].clone(), row);
            }
        }
        out
    }
}

fn write_row(out: &mut String, widths: &[usize; 4], time: &str, cells: &[String; 4]) {
    let mut text = format!("{time:<20}  ");
    for (at, cell) in cells.iter().enumerate() {
        let _ = write!(text, "{}  ", pad_or_truncate(cell, widths[at].max(cell.width())));
    }
    let _ = writeln!(out, "{}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_draw_overwrites_the_previous_text() {
        let mut live = LiveScreen::default();
        assert_eq!(live.draw("a\nb\n", (10, 24)), "a\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J");
        assert_eq!(live.draw("c\n", (10, 24)), "\r\u{1b}[2Ac\u{1b}[K\r\n\u{1b}[J");
        assert!(live.draw("d", (10, 24)).starts_with("\r\u{1b}[1A"));
    }

    #[test]
    fn wrapped_lines_count_as_several_rows() {
        let mut live = LiveScreen::default();
        live.draw("0123456789\n01234567890\n\u{1b}[1m0123456789\u{1b}[0m\n\n", (10, 24));
        // The old text takes five rows: the second line takes two rows, and the other three lines take one row each.
        assert!(live.draw("x\n", (10, 24)).starts_with("\r\u{1b}[5A"));
        // After the window has become narrower, the line takes two rows.
        live.draw("0123456789\n", (10, 24));
        assert!(live.draw("x\n", (5, 24)).starts_with("\r\u{1b}[2A"));
    }

    #[test]
    fn long_text_is_cut_with_a_hint() {
        let mut live = LiveScreen::default();
        let text: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let drawn = live.draw(&text, (80, 10));
        assert_eq!(drawn.matches("\r\n").count(), 9, "one row remains for the cursor: {drawn:?}");
        assert!(drawn.contains("line 7") && drawn.contains("… 42 more lines"), "{drawn:?}");
        assert!(live.draw("x", (80, 10)).starts_with("\r\u{1b}[9A"));
        let mut exact = LiveScreen::default();
        assert!(!exact.draw("1\n2\n3\n", (80, 4)).contains('…'));
    }
}

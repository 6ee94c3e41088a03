//! Where a pod that is followed is shown: drawn anew in place on a terminal, a line for each change elsewhere. Pure: texts come out.

use super::text;
use crate::pod::shape::View;
use crate::terminal::{column_widths, display_width, fit, truncate};
use podgate::core::text::sanitize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A text on a terminal that is drawn over the one before.
#[derive(Debug, Default)]
pub(crate) struct LiveScreen {
    drawn_lines: Vec<String>,
}

impl LiveScreen {
    /// What to write to see `text`, on a terminal of so many columns and rows, in place of the text before.
    pub(crate) fn draw(&mut self, text: &str, (columns, rows): (usize, usize)) -> String {
        let up: usize = self.drawn_lines.iter().map(|line| row_count(line, columns)).sum();
        let mut out = if up > 0 { format!("\r\u{1b}[{up}A") } else { String::new() };
        self.drawn_lines.clear();
        let (mut room, mut left) = (rows.saturating_sub(1), text.lines().count());
        for line in text.lines() {
            let needs = row_count(line, columns);
            // Nothing that has left the screen at its top can be drawn over.
            if needs > room || (needs == room && left > 1) {
                let more = format!("… {left} more lines: make the window higher");
                self.drawn_lines.push(truncate(&more, columns));
                break;
            }
            (room, left) = (room - needs, left - 1);
            self.drawn_lines.push(line.to_owned());
        }
        for line in &self.drawn_lines {
            let _ = write!(out, "{line}\u{1b}[K\r\n");
        }
        out.push_str("\u{1b}[J");
        out
    }
}

/// How many rows a line takes.
fn row_count(line: &str, columns: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    display_width(&plain).div_ceil(columns.max(1)).max(1)
}

/// A line for each change.
#[derive(Debug, Default)]
pub(crate) struct ChangeLines {
    /// What was last said of each container, and of the pod.
    last_rows: BTreeMap<String, [String; 4]>,
    widths: Option<[usize; 4]>,
}

const HEADERS: [&str; 4] = ["CONTAINER", "PODGATE", "KUBELET", "WAITS FOR"];
/// What stands for the pod as a whole.
const POD_ROW_NAME: &str = "(pod)";

impl ChangeLines {
    /// The lines for what has changed, with `time` in front.
    pub(crate) fn changed_lines(&mut self, view: &View, time: &str) -> String {
        let row = |row| {
            let [name, state, _, kubelet, waits_for, _] = text::cells(row);
            [name, state, kubelet, waits_for]
        };
        let mut rows: Vec<[String; 4]> = view.containers.iter().map(row).collect();
        let phase = match &view.published {
            _ if view.deleting => "deleting",
            Some(published) => published.phase,
            None => "-",
        };
        let pod = [POD_ROW_NAME, phase, view.pod_phase.as_deref().unwrap_or("-"), ""];
        rows.push(pod.map(sanitize));
        let mut out = String::new();
        let widths = *self.widths.get_or_insert_with(|| {
            let mut widths = column_widths(HEADERS, &rows);
            // Room for what may still come: the longest state, the usual words of the kubelet.
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
        let pad = if at == 3 { display_width(cell) } else { widths[at].max(display_width(cell)) };
        let _ = write!(text, "{}  ", fit(cell, pad));
    }
    let _ = writeln!(out, "{}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_over_the_one_before() {
        let mut live = LiveScreen::default();
        assert_eq!(live.draw("a\nb\n", (10, 24)), "a\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J");
        assert_eq!(live.draw("c\n", (10, 24)), "\r\u{1b}[2Ac\u{1b}[K\r\n\u{1b}[J");
        assert!(live.draw("d", (10, 24)).starts_with("\r\u{1b}[1A"));
    }

    #[test]
    fn a_line_that_the_terminal_breaks_counts_for_as_many_as_it_takes() {
        let mut live = LiveScreen::default();
        live.draw("0123456789\n01234567890\n\u{1b}[1m0123456789\u{1b}[0m\n\n", (10, 24));
        // One full row, two, one with marks of no width, one empty; and after the window has become narrower, more.
        assert!(live.draw("x\n", (10, 24)).starts_with("\r\u{1b}[5A"));
        live.draw("0123456789\n", (10, 24));
        assert!(live.draw("x\n", (5, 24)).starts_with("\r\u{1b}[2A"));
    }

    #[test]
    fn what_finds_no_room_is_cut_and_says_so() {
        let mut live = LiveScreen::default();
        let text: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let drawn = live.draw(&text, (80, 10));
        assert_eq!(drawn.matches("\r\n").count(), 9, "one row is left for the cursor: {drawn:?}");
        assert!(drawn.contains("line 7") && drawn.contains("… 42 more lines"), "{drawn:?}");
        assert!(live.draw("x", (80, 10)).starts_with("\r\u{1b}[9A"));
        let mut exact = LiveScreen::default();
        assert!(!exact.draw("1\n2\n3\n", (80, 4)).contains('…'));
    }
}

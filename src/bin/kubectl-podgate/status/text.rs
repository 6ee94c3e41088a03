//! What a person reads: a sentence, a table, when it was seen, and what is odd.

use super::view::{Row, View};
use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;

const HEADS: [&str; 5] = ["CONTAINER", "PODGATE", "KUBELET", "WAITS FOR", "HOLDS BACK"];
const BOLD: Style = Style::new().bold();

/// With colours, which the writer takes out where they are not wanted.
pub(crate) fn text(view: &View) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n\n", harmless(&view.summary));
    table(view, &mut out);
    out.push('\n');
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<10} {}", harmless(value));
    };
    if !view.order.is_empty() {
        line("order", &view.order.join(", "));
    }
    if let Some(published) = &view.published {
        let seen = match (&published.seen, published.seen_seconds_ago) {
            (Some(seen), Some(seconds)) => format!("{seen}, {} ago", ago(seconds)),
            (Some(seen), None) => seen.clone(),
            (None, _) => "(no time given)".to_owned(),
        };
        line(
            "published",
            &format!("{seen}: phase {}, revision {}, epoch {}", published.phase, published.revision, published.epoch),
        );
        line(
            "sandbox",
            &format!("{} (as published; the Pod's present one shows only inside of it)", published.sandbox),
        );
    }
    line("node", view.node.as_deref().unwrap_or("none yet"));
    if !view.notes.is_empty() {
        out.push('\n');
    }
    for note in &view.notes {
        let _ = writeln!(out, "- {}", harmless(note));
    }
    out
}

fn table(view: &View, out: &mut String) {
    let lines: Vec<[String; 5]> = view.containers.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut line = |cells: &[&str; 5], style: Style| {
        for (column, cell) in cells.iter().enumerate() {
            // Padded by hand: the marks of a colour have no width. Nothing stands after the last column.
            let pad = if column < 4 { widths[column] - cell.chars().count() + 2 } else { 0 };
            let style = if column == 1 { style } else { Style::new() };
            let _ = write!(out, "{style}{cell}{style:#}{:pad$}", "");
        }
        // A line whose last cells are empty ends where its text does.
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    };
    line(&HEADS, Style::new());
    for (cells, row) in lines.iter().zip(&view.containers) {
        line(&cells.each_ref().map(String::as_str), colour(row));
    }
}

fn cells(row: &Row) -> [String; 5] {
    use super::view::Role;
    let state = match row.role {
        Role::Sidecar => "(sidecar)",
        Role::Init => "(init)",
        Role::Container => row.state.unwrap_or("-"),
    };
    let conditions = row.waits_for.iter().map(|condition| match condition.standing {
        "never" => format!("{} (never)", condition.condition),
        _ => condition.condition.clone(),
    });
    let conditions: Vec<String> = conditions.collect();
    let waits_for = match row.state {
        // Nothing of podgate's is in its way.
        Some("Waiting") if conditions.is_empty() => "the kubelet".to_owned(),
        _ => conditions.join(", "),
    };
    [row.name.clone(), state.to_owned(), row.kubelet.text(), waits_for, row.holds_back.join(", ")]
        .map(|cell| harmless(&cell))
}

fn colour(row: &Row) -> Style {
    let colour = match row.state {
        _ if row.stuck.is_some() => AnsiColor::Red,
        Some("Ready" | "Completed") => AnsiColor::Green,
        Some("Failed" | "NotReady") => AnsiColor::Red,
        Some("Started") => AnsiColor::Yellow,
        _ => return Style::new().dimmed(),
    };
    colour.on_default()
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

/// Texts of the cluster go to a terminal: nothing in them may steer it, turn its direction, or end a line.
fn harmless(text: &str) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_the_cluster_steers_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mb\nc\u{9b}2J\u{202e}d"), "a [31mb c 2J d");
    }

    #[test]
    fn a_time_is_as_exact_as_it_need_be() {
        let all = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(ago);
        assert_eq!(all, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}

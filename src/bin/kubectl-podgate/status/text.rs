//! Text output of `status`: a summary, a table, details of the published state, and notes.

use crate::pod::shape::{PublishedPod, Role, Row, UnmetCondition, View};
use crate::terminal::column_widths;
use anstyle::{AnsiColor, Style};
use podgate::core::text::sanitize;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

const HEADERS: [&str; 6] = ["CONTAINER", "PODGATE", "SINCE", "KUBELET", "WAITS FOR", "HOLDS BACK"];
const BOLD: Style = Style::new().bold();

/// Renders the status with colors. The writer removes the colors if they are not wanted.
pub(crate) fn render(view: &View) -> String {
    let mut out = format!("{BOLD}{}{BOLD:#}\n\n", sanitize(&view.summary));
    write_table(view, &mut out);
    out.push('\n');
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<10} {}", sanitize(value));
    };
    for (at, (condition, takes)) in unmet_conditions(view).into_iter().enumerate() {
        line(if at == 0 { "needed" } else { "" }, &format!("{condition}: {takes}"));
    }
    if !view.order.is_empty() {
        line("order", &view.order.join(", "));
    }
    if let Some(PublishedPod { stage, sandbox, epoch, revision, seen, seen_seconds_ago }) = &view.published {
        let seen = match (seen, *seen_seconds_ago) {
            (Some(seen), Some(seconds)) => format!("{seen}, {} ago", format_age(seconds)),
            (Some(seen), None) => seen.clone(),
            (None, _) => "(no time)".to_owned(),
        };
        line("published", &format!("{seen}: stage {stage}, revision {revision}, epoch {epoch}"));
        line("sandbox", &format!("{sandbox} (as published; the current one is visible only inside the Pod)"));
    }
    line("node", view.node.as_deref().unwrap_or("not scheduled yet"));
    if !view.notes.is_empty() {
        out.push('\n');
    }
    for note in &view.notes {
        let _ = writeln!(out, "- {}", sanitize(note));
    }
    out
}

/// Returns each unmet condition once, with the event that would meet the condition.
fn unmet_conditions(view: &View) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for condition in view.containers.iter().flat_map(|row| &row.waits_for) {
        let entry = (condition.condition.as_str(), condition.takes.as_str());
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all
}

fn write_table(view: &View, out: &mut String) {
    let lines: Vec<[String; 6]> = view.containers.iter().map(cells).collect();
    let widths = column_widths(HEADERS, &lines);
    let mut line = |cells: &[&str; 6], style: Style| {
        for (column, cell) in cells.iter().enumerate() {
            // Compute the padding, because `format!` would count escape sequences.
            let pad = widths[column] - cell.width() + 2;
            let style = if column == 1 { style } else { Style::new() };
            let _ = write!(out, "{style}{cell}{style:#}{:pad$}", "");
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    };
    line(&HEADERS, Style::new());
    for (cells, row) in lines.iter().zip(&view.containers) {
        line(&cells.each_ref().map(String::as_str), state_style(row));
    }
}

/// Returns one row of the table as plain text.
pub(super) fn cells(row: &Row) -> [String; 6] {
    let state = match row.role {
        Role::Sidecar => "(sidecar)",
        Role::Init => "(init)",
        Role::Container => row.state.unwrap_or("-"),
    };
    let describe = |condition: &UnmetCondition| match condition.standing {
        "never" => format!("{} (never)", condition.condition),
        _ => condition.condition.clone(),
    };
    let conditions: Vec<String> = row.waits_for.iter().map(describe).collect();
    let waits_for = match row.state {
        // The container waits, but not for a condition of podgate.
        Some("Waiting" | "TimedOut") if conditions.is_empty() => "the kubelet".to_owned(),
        _ => conditions.join(", "),
    };
    let since = row.since.as_ref().map(|since| format!("{} ago", format_age(since.seconds_ago))).unwrap_or_default();
    [row.name.clone(), state.to_owned(), since, row.kubelet.describe(), waits_for, row.holds_back.join(", ")]
        .map(|cell| sanitize(&cell))
}

fn state_style(row: &Row) -> Style {
    let color = match row.state {
        _ if row.stuck.is_some() => AnsiColor::Red,
        Some("Ready" | "Completed") => AnsiColor::Green,
        Some("Failed" | "NotReady" | "TimedOut" | "Violated") => AnsiColor::Red,
        Some("Started") => AnsiColor::Yellow,
        _ => return Style::new().dimmed(),
    };
    color.on_default()
}

fn format_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_unit_grows_with_the_age() {
        let all = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(format_age);
        assert_eq!(all, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}

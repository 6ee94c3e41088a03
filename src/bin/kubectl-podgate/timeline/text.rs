//! The chart as text: one row of bars per container, followed by a table of times.

use super::shape::{Bar, BarKind, Mark, Moment, Row, Timeline, format_seconds, rfc3339};
use crate::terminal::{self, column_widths, pad_or_truncate};
use anstyle::Style;
use podgate::core::container::Mode;
use podgate::core::text::sanitize;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Maximum width of the column of names, in characters.
const NAME_MAX: usize = 24;
/// Width of the chart in characters, if standard output is not a terminal.
const DEFAULT_COLUMNS: usize = 100;
/// Distances between two ticks, in milliseconds. A longer distance is a multiple of [`DAY`].
const TICK_STEPS: [i64; 16] = [
    100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
    21_600_000,
];
const DAY: i64 = 86_400_000;

pub(super) fn render(timeline: &Timeline, width: Option<u16>) -> String {
    let mut out = render_summary_and_chart(timeline, width);
    out.push('\n');
    write_table(&mut out, timeline);
    let describe = |mark: &Mark| match mark.what {
        "created" => format!("created {}", rfc3339(mark.moment.at).replace(".000Z", "Z")),
        what => format!("{what} {}", format_offset(Some(mark.moment), timeline.from)),
    };
    let marks: Vec<String> = timeline.marks.iter().map(describe).collect();
    if !marks.is_empty() {
        let _ = writeln!(out, "\nPod: {}", marks.join(", "));
    }
    for (index, note) in timeline.notes.iter().enumerate() {
        let _ = writeln!(out, "{}- {}", if index == 0 { "\n" } else { "" }, sanitize(note));
    }
    out
}

/// Returns the summary, the rows of bars and the legend. `width` replaces the terminal's width.
pub(crate) fn render_summary_and_chart(timeline: &Timeline, width: Option<u16>) -> String {
    let columns = width.map(usize::from).or_else(|| Some(terminal::columns_and_rows()?.0)).unwrap_or(DEFAULT_COLUMNS);
    // Without colors, all bars of a colored chart would look the same. Draw shades instead.
    let colors = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let bold = Style::new().bold();
    let mut out = format!("{bold}{}{bold:#}\n\n", sanitize(&timeline.summary));
    let names = timeline.containers.iter().map(|row| row.name.width()).max().unwrap_or_default().clamp(5, NAME_MAX);
    let cells = columns.saturating_sub(names + 2).max(10);
    let length = timeline.to - timeline.from;
    write_axis(&mut out, length, names, cells);
    for row in &timeline.containers {
        let _ = write!(out, "{}  ", pad_or_truncate(&sanitize(&row.name), names));
        let _ = writeln!(out, "{}", render_bars(&row.bars, timeline.from, length, cells, colors).trim_end_matches(' '));
    }
    out.push('\n');
    write_legend(&mut out, timeline, colors);
    out
}

fn write_axis(out: &mut String, length: i64, names: usize, cells: usize) {
    let mut line = String::new();
    for (after, text) in ticks(length, cells / 9) {
        let at = position(after, length, cells * 8) / 8;
        if at + text.len() <= cells && at >= line.len() {
            let pad = at - line.len();
            let _ = write!(line, "{:pad$}{text}", "");
        }
    }
    let _ = writeln!(out, "{:names$}  {line}", "");
}

/// Returns at most `most` + 1 ticks at round times within `length` milliseconds. Each tick is an offset in milliseconds
/// and a label. The first offset is 0.
fn ticks(length: i64, most: usize) -> Vec<(i64, String)> {
    let most = i64::try_from(most.max(1)).unwrap_or(1);
    let step = TICK_STEPS.into_iter().find(|step| length / step < most).unwrap_or(DAY);
    // Only steps of a day can give more ticks than `most`. In that case, use steps of several days.
    let step = step * (length / step / most + 1);
    (0..=length / step).map(|n| (n * step, format_tick(n * step))).collect()
}

fn format_tick(ms: i64) -> String {
    let (minutes, seconds) = (ms / 60_000, ms % 60_000 / 1000);
    match ms {
        _ if ms % 1000 != 0 => format!("{:.1}s", ms as f64 / 1000.0),
        ..120_000 => format!("{}s", ms / 1000),
        7_200_000.. => format!("{:.1}h", ms as f64 / 3_600_000.0),
        _ if seconds == 0 => format!("{minutes}min"),
        _ => format!("{minutes}min{seconds}s"),
    }
}

/// Scales an offset between 0 and `length` to a place between 0 and `places`.
fn position(after: i64, length: i64, places: usize) -> usize {
    let share = after.max(0) as f64 / length.max(1) as f64;
    ((share * places as f64).round() as usize).min(places)
}

fn render_bars(bars: &[Bar], from: i64, length: i64, cells: usize, colors: bool) -> String {
    let mut kinds = vec![None; cells];
    for bar in bars {
        let [begin, end] = [bar.from, bar.to].map(|at| position(at - from, length, cells));
        // A very short bar still takes one cell.
        let end = end.max(begin + 1).min(cells);
        kinds[begin.min(end)..end].fill(Some(bar.kind));
    }
    let (mut out, mut now) = (String::new(), Style::new());
    for kind in kinds {
        let (style, c) = kind.map_or((Style::new(), ' '), |kind| cell_style(kind, colors));
        if style != now {
            let _ = write!(out, "{now:#}{style}");
            now = style;
        }
        out.push(c);
    }
    let _ = write!(out, "{now:#}");
    out
}

/// Returns the style and the character of a cell. Without colors, the character is the shade of `kind`.
fn cell_style(kind: BarKind, colors: bool) -> (Style, char) {
    let (_, shade, color) = kind.style();
    match (colors, kind) {
        (false, _) => (Style::new(), shade),
        (true, BarKind::Wait) => (color.on_default(), '·'),
        (true, _) => (color.on_default(), '█'),
    }
}

fn write_legend(out: &mut String, timeline: &Timeline, colors: bool) {
    let mut all = [BarKind::Wait, BarKind::Pull, BarKind::Gate, BarKind::Start, BarKind::Ready, BarKind::Run].to_vec();
    all.retain(|kind| timeline.containers.iter().flat_map(|row| &row.bars).any(|bar| bar.kind == *kind));
    let items = all.into_iter().map(|kind| {
        let (style, c) = cell_style(kind, colors);
        format!("{style}{c}{c}{style:#} {}", kind.style().0)
    });
    let _ = writeln!(out, "{}", items.collect::<Vec<_>>().join("   "));
}

/// Formats a moment as the time since the beginning of the chart.
fn format_offset(moment: Option<Moment>, from: i64) -> String {
    let Some(moment) = moment else { return String::new() };
    format!("{}+{}", if moment.exact { "" } else { "~" }, format_seconds(moment.at - from))
}

const HEADERS: [&str; 7] = ["CONTAINER", "PULLED", "GATE WAITED", "STARTED", "READY", "TIME TO READY", "ENDED"];

fn cells(row: &Row, from: i64) -> [String; 7] {
    let between = |a: Option<Moment>, b: Option<Moment>| {
        let (Some(a), Some(b)) = (a, b) else { return String::new() };
        let mark = if a.exact && b.exact { "" } else { "~" };
        format!("{mark}{}", format_seconds((b.at - a.at).max(0)))
    };
    let pulled = match (row.pull_ms, row.pulled) {
        (Some(took), _) => format!("in {}", format_seconds(took)),
        (None, Some(_)) => "present".to_owned(),
        (None, None) => String::new(),
    };
    // In entrypoint mode, the gate waits from the container's start.
    let gate = if row.mode == Mode::Hold { row.gate } else { row.gate.and(row.created) };
    [
        row.name.clone(),
        pulled,
        between(gate, row.opened),
        format_offset(row.started, from),
        format_offset(row.ready, from),
        between(row.started, row.ready),
        format_offset(row.ended, from),
    ]
}

fn write_table(out: &mut String, timeline: &Timeline) {
    let rows: Vec<[String; 7]> =
        timeline.containers.iter().map(|row| cells(row, timeline.from).map(|cell| sanitize(&cell))).collect();
    let used: Vec<usize> = (0..HEADERS.len()).filter(|at| rows.iter().any(|row| !row[*at].is_empty())).collect();
    let widths = column_widths(HEADERS, &rows);
    let mut line = |cells: [&str; 7]| {
        let mut text = String::new();
        for at in &used {
            let (cell, pad) = (cells[*at], " ".repeat(widths[*at] - cells[*at].width()));
            // Align names left and numbers right.
            let _ = if *at == 0 { write!(text, "{cell}{pad}  ") } else { write!(text, "{pad}{cell}  ") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(HEADERS);
    rows.iter().for_each(|row| line(row.each_ref().map(String::as_str)));
}

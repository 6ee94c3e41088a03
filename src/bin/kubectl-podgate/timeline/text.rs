//! The picture for a terminal: a row of bars for each container, in eighths of a cell where there are colours, in shades where
//! there are none; below, the times.

use super::scale::ticks;
use super::shape::{Bar, Kind, Mark, Moment, Row, Timeline, rfc3339, seconds};
use crate::terminal::{fit, width, widths};
use anstyle::Style;
use podgate::core::text::harmless;
use std::fmt::Write as _;

/// Left to the right end of a cell, in eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// No name takes more of the width than this.
const NAME_MAX: usize = 24;

pub(crate) fn text(timeline: &Timeline, columns: usize, colours: bool) -> String {
    let bold = Style::new().bold();
    let mut out = format!("{bold}{}{bold:#}\n\n", harmless(&timeline.summary));
    let names = timeline.containers.iter().map(|row| width(&row.name)).max().unwrap_or_default().clamp(5, NAME_MAX);
    let cells = columns.saturating_sub(names + 2).max(10);
    let length = timeline.to - timeline.from;
    axis(&mut out, length, names, cells);
    for row in &timeline.containers {
        let _ = write!(out, "{}  ", fit(&harmless(&row.name), names));
        let line = match colours {
            true => coloured(&row.bars, timeline.from, length, cells),
            false => shaded(&row.bars, timeline.from, length, cells),
        };
        let _ = writeln!(out, "{}", line.trim_end_matches(' '));
    }
    out.push('\n');
    legend(&mut out, timeline, colours);
    out.push('\n');
    table(&mut out, timeline);
    let say = |mark: &Mark| match mark.what {
        "created" => format!("created {}", rfc3339(mark.moment.at).replace(".000Z", "Z")),
        what => format!("{what} {}", at(Some(mark.moment), timeline.from)),
    };
    let marks: Vec<String> = timeline.marks.iter().map(say).collect();
    if !marks.is_empty() {
        let _ = writeln!(out, "\nPod: {}", marks.join(", "));
    }
    for (index, note) in timeline.notes.iter().enumerate() {
        let _ = writeln!(out, "{}- {}", if index == 0 { "\n" } else { "" }, harmless(note));
    }
    out
}

fn axis(out: &mut String, length: i64, names: usize, cells: usize) {
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

/// Where a moment lies, of so many places.
fn position(after: i64, length: i64, places: usize) -> usize {
    let share = after.max(0) as f64 / length.max(1) as f64;
    ((share * places as f64).round() as usize).min(places)
}

/// What lies at each of `places` places.
fn places(bars: &[Bar], from: i64, length: i64, count: usize) -> Vec<Option<Kind>> {
    let mut out = vec![None; count];
    for bar in bars {
        let (begin, end) = (position(bar.from - from, length, count), position(bar.to - from, length, count));
        // What is too short to be seen is shown all the same, as a sliver.
        let end = end.max(begin + 1).min(count);
        out[begin.min(end)..end].fill(Some(bar.kind));
    }
    out
}

fn shaded(bars: &[Bar], from: i64, length: i64, cells: usize) -> String {
    places(bars, from, length, cells).into_iter().map(|kind| kind.map_or(' ', |kind| kind.look().shade)).collect()
}

/// In eighths: a cell with a border in it is drawn in both colours.
fn coloured(bars: &[Bar], from: i64, length: i64, cells: usize) -> String {
    let places = places(bars, from, length, cells * 8);
    let (mut out, mut now) = (String::new(), Style::new());
    for cell in places.chunks(8) {
        let solid = |kind: Option<Kind>| kind.filter(|kind| *kind != Kind::Wait).map(|kind| kind.look().colour);
        let (first, last) = (cell[0], cell[7]);
        let border = cell.iter().position(|kind| *kind != first).unwrap_or(8);
        let (style, c) = match (solid(first), solid(last)) {
            _ if border == 8 => match first {
                Some(kind) => full(kind),
                None => (Style::new(), ' '),
            },
            (Some(first), Some(last)) => (first.on(last), EIGHTHS[border]),
            (Some(first), None) => (first.on_default(), EIGHTHS[border]),
            // The block fills a cell from its left: what begins within one is drawn the other way round.
            (None, Some(last)) => (last.on_default().invert(), EIGHTHS[border]),
            (None, None) => (Style::new(), ' '),
        };
        // A colour is named where it begins, not for each cell.
        if style != now {
            let _ = write!(out, "{now:#}{style}");
            now = style;
        }
        out.push(c);
    }
    let _ = write!(out, "{now:#}");
    out
}

/// A cell that is all of one kind.
fn full(kind: Kind) -> (Style, char) {
    (kind.look().colour.on_default(), if kind == Kind::Wait { '·' } else { '█' })
}

fn legend(out: &mut String, timeline: &Timeline, colours: bool) {
    let items = timeline.kinds().map(|kind| {
        let (style, c) = if colours { full(kind) } else { (Style::new(), kind.look().shade) };
        format!("{style}{c}{c}{style:#} {}", kind.look().words)
    });
    let _ = writeln!(out, "{}", items.collect::<Vec<_>>().join("   "));
}

/// A moment as its distance from the beginning.
pub(super) fn at(moment: Option<Moment>, from: i64) -> String {
    let Some(moment) = moment else { return String::new() };
    format!("{}+{}", if moment.exact { "" } else { "~" }, seconds(moment.at - from))
}

const HEADS: [&str; 7] = ["CONTAINER", "PULLED", "GATE WAITED", "STARTED", "READY", "CAME UP IN", "ENDED"];

fn cells(row: &Row, from: i64) -> [String; 7] {
    let between = |a: Option<Moment>, b: Option<Moment>| {
        let (Some(a), Some(b)) = (a, b) else { return String::new() };
        let mark = if a.exact && b.exact { "" } else { "~" };
        format!("{mark}{}", seconds((b.at - a.at).max(0)))
    };
    let pulled = match (row.pull_ms, row.pulled) {
        (Some(took), _) => format!("in {}", seconds(took)),
        (None, Some(_)) => "there".to_owned(),
        (None, None) => String::new(),
    };
    [
        row.name.clone(),
        pulled,
        between(row.gate.and(row.created), row.opened),
        at(row.started, from),
        at(row.ready, from),
        between(row.started, row.ready),
        at(row.ended, from),
    ]
}

fn table(out: &mut String, timeline: &Timeline) {
    let rows: Vec<[String; 7]> =
        timeline.containers.iter().map(|row| cells(row, timeline.from).map(|cell| harmless(&cell))).collect();
    let used: Vec<usize> = (0..HEADS.len()).filter(|at| rows.iter().any(|row| !row[*at].is_empty())).collect();
    let widths = widths(HEADS, &rows);
    let mut line = |cells: [&str; 7]| {
        let mut text = String::new();
        for at in &used {
            let (cell, pad) = (cells[*at], " ".repeat(widths[*at] - width(cells[*at])));
            // Names to the left, numbers to the right.
            let _ = if *at == 0 { write!(text, "{cell}{pad}  ") } else { write!(text, "{pad}{cell}  ") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(HEADS);
    rows.iter().for_each(|row| line(row.each_ref().map(String::as_str)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(kind: Kind, from: i64, to: i64) -> Bar {
        Bar { kind, from, to, exact: true }
    }

    #[test]
    fn in_shades_each_cell_is_one_thing() {
        let bars = [bar(Kind::Wait, 0, 200), bar(Kind::Start, 200, 600), bar(Kind::Ready, 600, 1000)];
        assert_eq!(shaded(&bars, 0, 1000, 10), "··▒▒▒▒████");
        assert_eq!(shaded(&[bar(Kind::Ready, 999, 1000)], 0, 1000, 10), " ".repeat(10), "at the very end is no room");
        assert_eq!(shaded(&[bar(Kind::Ready, 500, 501)], 0, 1000, 10), "     █    ");
        assert_eq!(shaded(&[bar(Kind::Ready, -50, 5000)], 0, 1000, 10), "██████████");
    }

    #[test]
    fn with_colours_a_border_lies_within_a_cell() {
        let plain = |bars: &[Bar]| anstream::adapter::strip_str(&coloured(bars, 0, 1000, 5)).to_string();
        assert_eq!(plain(&[bar(Kind::Ready, 0, 300)]), "█▌   ");
        assert_eq!(plain(&[bar(Kind::Start, 0, 425), bar(Kind::Ready, 425, 1000)]), "██▏██");
        let from_within = coloured(&[bar(Kind::Ready, 300, 1000)], 0, 1000, 5);
        assert!(
            from_within.contains("\u{1b}[7m") && plain(&[bar(Kind::Ready, 300, 1000)]) == " ▌███",
            "{from_within:?}"
        );
        assert_eq!(plain(&[bar(Kind::Wait, 0, 1000)]), "·····");
    }
}

//! The chart as SVG, without scripts and external resources. The image adapts to light and dark mode, and has a title
//! and a description for screen readers.

use super::scale::ticks;
use super::shape::{BarKind, BarStyle, Row, Timeline, format_seconds};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 76.0;
const ROW_HEIGHT: f64 = 30.0;
const BAR_HEIGHT: f64 = 18.0;
/// Maximum length of a name in the left column, in characters. A name of this length fits even in a wide font.
const NAME_MAX: usize = 24;
/// Maximum length of the headline, in characters of a wide font.
const HEADLINE_MAX: usize = 96;
/// Width of an item of the legend without the item's text, in pixels.
const LEGEND_GAP: f64 = 38.0;
/// Mean width of a letter of the legend, in pixels.
const LETTER_WIDTH: f64 = 6.0;

/// Escapes text for XML content and attribute values. All text from the cluster must pass through this function.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML does not allow these characters, not even as a numeric reference.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Style sheet with colors for light and dark mode. The colors also differ in lightness. The sheet has no CSS
/// variables, because some viewers do not support them.
const STYLE: &str = "\
.pg text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}
.pg .name{font:12px ui-monospace,monospace}
.pg .dim{fill:#59636e;font-size:11px}
.pg .head{font-size:15px;font-weight:600}
.pg .grid{stroke:#d1d9e0;stroke-width:1}
.pg .bg{fill:#ffffff}
.pg .wait{stroke:#818b98;stroke-width:2;stroke-dasharray:.1 5;stroke-linecap:round}
.pg .pull{fill:#0969da}
.pg .gate{fill:#8250df}
.pg .start{fill:#d4a72c}
.pg .ready{fill:#1a7f37}
.pg .run{fill:#57a3b5}
@media(prefers-color-scheme:dark){
.pg text{fill:#e6edf3}
.pg .dim{fill:#9198a1}
.pg .grid{stroke:#3d444d}
.pg .bg{fill:#0d1117}
.pg .wait{stroke:#9198a1}
.pg .pull{fill:#4493f8}
.pg .gate{fill:#ab7df8}
.pg .start{fill:#d29922}
.pg .ready{fill:#3fb950}
.pg .run{fill:#39a0b5}
}";

pub(crate) fn render(timeline: &Timeline) -> String {
    let rows = timeline.containers.len() as f64;
    let height = TOP + rows * ROW_HEIGHT + 48.0;
    let mut out = String::new();
    let name = escape(&format!("Start of {}", timeline.pod));
    let about = escape(&timeline.summary);
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="pg" role="img" aria-labelledby="pg-title pg-desc" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">
<title id="pg-title">{name}</title>
<desc id="pg-desc">{about}</desc>
<style>{STYLE}</style>
<rect class="bg" width="{WIDTH}" height="{height}"/>"#
    );
    let head = escape(&shorten(&timeline.summary, HEADLINE_MAX));
    let _ = writeln!(out, r#"<text class="head" x="12" y="26">{head}</text>"#);
    let (above, top, bottom) = (TOP - 14.0, TOP - 8.0, TOP + rows * ROW_HEIGHT);
    for (after, text) in ticks(timeline.to - timeline.from, 12) {
        let (x, text) = (x_position(timeline.from + after, timeline), escape(&text));
        let _ = writeln!(out, r#"<line class="grid" x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}"/>"#);
        let _ = writeln!(out, r#"<text class="dim" x="{x:.1}" y="{above:.1}" text-anchor="middle">{text}</text>"#);
    }
    for (index, row) in timeline.containers.iter().enumerate() {
        write_row(&mut out, row, index, timeline);
    }
    write_legend(&mut out, timeline, bottom + 26.0);
    out.push_str("</svg>\n");
    out
}

/// Shortens a long text by removing the middle, because many names differ only at the end.
fn shorten(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let after = (most - 1) / 2;
    let (head, tail) = (&letters[..most - 1 - after], &letters[letters.len() - after..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

fn x_position(ms: i64, timeline: &Timeline) -> f64 {
    let share = (ms - timeline.from) as f64 / (timeline.to - timeline.from).max(1) as f64;
    LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn write_row(out: &mut String, row: &Row, index: usize, timeline: &Timeline) {
    let top = TOP + index as f64 * ROW_HEIGHT;
    let (middle, bar_top) = (top + ROW_HEIGHT / 2.0, top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0);
    let (end, y, name, whole) = (LEFT - 10.0, middle + 4.5, escape(&shorten(&row.name, NAME_MAX)), escape(&row.name));
    let _ = writeln!(
        out,
        r#"<text class="name" x="{end:.1}" y="{y:.1}" text-anchor="end">{name}<title>{whole}</title></text>"#
    );
    for bar in &row.bars {
        let (from, to, class) = (x_position(bar.from, timeline), x_position(bar.to, timeline), bar.kind.style().class);
        let (exact, what) = (if bar.exact { "" } else { "~" }, bar.kind.style().label);
        let [begin, end] = [bar.from, bar.to].map(|at| format_seconds(at - timeline.from));
        let took = format_seconds(bar.to - bar.from);
        let title = escape(&format!("{}: {what}, {exact}+{begin} to +{end} ({exact}{took})", row.name));
        if bar.kind == BarKind::Wait {
            let _ = writeln!(
                out,
                r#"<line class="{class}" x1="{from:.1}" y1="{middle:.1}" x2="{to:.1}" y2="{middle:.1}"><title>{title}</title></line>"#
            );
            continue;
        }
        let width = (to - from).max(1.0);
        let _ = writeln!(
            out,
            r#"<rect class="{class}" x="{from:.1}" y="{bar_top:.1}" width="{width:.1}" height="{BAR_HEIGHT}" rx="2"><title>{title}</title></rect>"#
        );
    }
}

fn write_legend(out: &mut String, timeline: &Timeline, y: f64) {
    let (middle, top, mut x) = (y - 4.0, y - 9.0, 12.0);
    for kind in timeline.bar_kinds() {
        let (BarStyle { class, label, .. }, right, text) = (kind.style(), x + 14.0, x + 18.0);
        let _ = match kind {
            BarKind::Wait => {
                writeln!(
                    out,
                    r#"<line class="{class}" x1="{x:.1}" y1="{middle:.1}" x2="{right:.1}" y2="{middle:.1}"/>"#
                )
            }
            _ => writeln!(out, r#"<rect class="{class}" x="{x:.1}" y="{top:.1}" width="12" height="10" rx="2"/>"#),
        };
        let _ = writeln!(out, r#"<text class="dim" x="{text:.1}" y="{y:.1}">{label}</text>"#);
        x += LEGEND_GAP + LETTER_WIDTH * label.chars().count() as f64;
    }
}

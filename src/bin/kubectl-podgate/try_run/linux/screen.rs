//! Prints events and logs, one line each. On a terminal, a chart grows below the lines.

use super::now_ms;
use super::script::Script;
use crate::common_args::OutputFormat;
use crate::output::{print_stderr, write_stdout};
use crate::status::screen::LiveScreen;
use crate::terminal;
use crate::try_run::args::Try;
use podgate::core::text::sanitize;
use podgate::order::finding::Level;
use std::io::Write;

/// Delay before a line is printed, in milliseconds, because events of several processes arrive out of order.
pub(super) const DELAY_MS: i64 = 100;
const REDRAW_MS: i64 = 100;

#[derive(Debug)]
pub(super) struct Screen<'a> {
    args: &'a Try,
    /// The growing chart; `None` unless the output is text on a terminal.
    live: Option<LiveScreen>,
    drawn_at: i64,
    /// Lines that are not printed yet, with their time in milliseconds since 1970.
    pending: Vec<(i64, String)>,
    /// Start of the Pod in milliseconds since 1970.
    zero: i64,
    name_width: usize,
}

impl<'a> Screen<'a> {
    pub(super) fn new(args: &'a Try, zero: i64, name_width: usize) -> Screen<'a> {
        let live = (args.output == OutputFormat::Text && terminal::size().is_some()).then(LiveScreen::default);
        Screen { args, live, drawn_at: 0, pending: Vec::new(), zero, name_width }
    }

    pub(super) fn event(&mut self, at: i64, name: &str, what: &str) {
        let seconds = (at - self.zero).max(0) as f64 / 1000.0;
        let width = self.name_width;
        self.pending.push((at, format!("{seconds:6.2} s  {name:width$}  {}", sanitize(what))));
    }

    /// Adds a line of a container's log. Omits podgate's timestamps and, without `--verbose`, podgate's INFO lines,
    /// because the events show the same.
    pub(super) fn log(&mut self, name: &str, line: &str) {
        let own = line.split_once(' ').filter(|(time, _)| humantime::parse_rfc3339(time).is_ok());
        if own.is_some_and(|(_, rest)| rest.starts_with("INFO")) && !self.args.verbose {
            return;
        }
        let (line, width) = (own.map_or(line, |(_, rest)| rest), self.name_width);
        self.pending.push((now_ms(), format!("{:8}  {name:width$}  | {}", "", sanitize(line))));
    }

    /// Prints the containers and the notes.
    pub(super) fn announce(&self, script: &Script) -> Result<(), String> {
        let names: Vec<&str> = script.tasks[1..].iter().map(|task| task.name.as_str()).collect();
        let head = format!("{}: {}", script.title, names.join(", "));
        for line in std::iter::once(&head).chain(&script.notes) {
            match self.args.output {
                OutputFormat::Text => _ = write_stdout(&format!("{}\n", sanitize(line)))?,
                OutputFormat::Json => print_stderr(Level::Note, line),
            }
        }
        Ok(())
    }

    /// Returns true if the chart must be drawn again.
    pub(super) fn is_due(&self, until: i64) -> bool {
        self.live.is_some()
            && (now_ms() - self.drawn_at >= REDRAW_MS || self.pending.iter().any(|(at, _)| *at <= until))
    }

    /// Prints the lines up to this time, and replaces the chart on a terminal.
    pub(super) fn print(&mut self, until: i64, chart: Option<&str>) -> Result<(), String> {
        self.pending.sort_by_key(|(at, _)| *at);
        let count = self.pending.partition_point(|(at, _)| *at <= until);
        let lines: String = self.pending.drain(..count).map(|(_, line)| line + "\n").collect();
        if self.args.output != OutputFormat::Text {
            let _ = std::io::stderr().write_all(lines.as_bytes());
            return Ok(());
        }
        let Some(live) = self.live.as_mut().filter(|_| chart.is_some() || until == i64::MAX) else {
            return write_stdout(&lines).map(drop);
        };
        let size = terminal::size().unwrap_or((80, 24));
        self.drawn_at = now_ms();
        let text = format!("{}{lines}{}", live.draw("", size), live.draw(chart.unwrap_or_default(), size));
        write_stdout(&text).map(drop)
    }
}

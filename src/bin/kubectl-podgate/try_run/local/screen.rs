//! Prints events and logs: one line each, or below a chart that grows on a terminal.

use super::now_ms;
use super::script::Script;
use crate::output::{print_stderr, write_stdout};
use crate::status::screen::LiveScreen;
use crate::terminal;
use crate::timeline::Output;
use crate::try_run::args::Try;
use podgate::core::text::sanitize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Time for which a line is kept back. Events of several processes arrive out of order.
const DELAY_MS: i64 = 100;
/// Number of lines below the chart on a terminal.
const LINES_BELOW_CHART: usize = 10;
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Screen {
    output: Output,
    is_verbose: bool,
    /// `None` unless the chart grows on a terminal.
    live: Option<LiveScreen>,
    /// Lines that are not printed yet, with their time in milliseconds since 1970.
    pending: Vec<(i64, String)>,
    /// The last lines on a terminal.
    last: Vec<String>,
    /// Start of the Pod in milliseconds since 1970.
    zero: i64,
    name_width: usize,
    drawn_at: Option<Instant>,
}

impl Screen {
    pub(super) fn new(args: &Try, zero: i64, name_width: usize) -> Screen {
        let (output, is_verbose) = (args.output, args.verbose);
        let live = (output == Output::Text && terminal::size().is_some()).then(LiveScreen::default);
        Screen { output, is_verbose, live, pending: Vec::new(), last: Vec::new(), zero, name_width, drawn_at: None }
    }

    /// Adds an event of a container.
    pub(super) fn event(&mut self, at: i64, name: &str, what: &str) {
        let seconds = (at - self.zero).max(0) as f64 / 1000.0;
        let width = self.name_width;
        self.pending.push((at, format!("{seconds:6.2} s  {name:width$}  {}", sanitize(what))));
    }

    /// Adds a line of a container's log. Omits podgate's timestamps and level INFO, because the events show the same.
    pub(super) fn log(&mut self, name: &str, line: &str) {
        let own = line.split_once(' ').filter(|(time, _)| humantime::parse_rfc3339(time).is_ok());
        if own.is_some_and(|(_, rest)| rest.starts_with("INFO")) && !self.is_verbose {
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
            match self.output {
                Output::Text => _ = write_stdout(&format!("{}\n", sanitize(line)))?,
                Output::Json | Output::Svg => print_stderr(line),
            }
        }
        Ok(())
    }

    /// Returns true if the chart must be drawn again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.live.is_some() && self.drawn_at.is_none_or(|drawn| drawn + REDRAW_INTERVAL <= now)
    }

    /// Prints the lines that are old enough, and draws the chart, if given.
    pub(super) fn flush(&mut self, now: Instant, chart: Option<&str>) -> Result<(), String> {
        self.print_lines(now_ms() - DELAY_MS)?;
        let Some(chart) = chart else { return Ok(()) };
        self.drawn_at = Some(now);
        self.draw(chart)
    }

    /// Draws the chart and the last lines below it, if the chart grows on a terminal.
    fn draw(&mut self, chart: &str) -> Result<(), String> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let text = format!("{chart}\n{}\n", self.last.join("\n"));
        write_stdout(&live.draw(&text, terminal::size().unwrap_or((80, 24)))).map(|_| ())
    }

    /// Prints all remaining lines. On a terminal, only the last lines stay, without the chart above them.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.print_lines(i64::MAX)?;
        self.draw("")
    }

    fn print_lines(&mut self, until: i64) -> Result<(), String> {
        self.pending.sort_by_key(|(at, _)| *at);
        let count = self.pending.partition_point(|(at, _)| *at <= until);
        for (_, line) in self.pending.drain(..count) {
            if self.live.is_some() {
                self.last.push(line);
                let more = self.last.len().saturating_sub(LINES_BELOW_CHART);
                self.last.drain(..more);
            } else if self.output == Output::Text {
                write_stdout(&(line + "\n"))?;
            } else {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
        Ok(())
    }
}

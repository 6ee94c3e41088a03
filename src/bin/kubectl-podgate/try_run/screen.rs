//! Prints events and logs: one line each, or below a chart that grows on a terminal.

use super::args::Output;
use crate::output::write_stdout;
use crate::status::screen::LiveScreen;
use crate::terminal;
use podgate::core::text::sanitize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Time for which a line is kept back. Events of several processes arrive out of order.
const DELAY_MS: i64 = 60;
/// Number of lines below the chart on a terminal.
const LINES_BELOW_CHART: usize = 10;
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Screen {
    output: Output,
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
    pub(super) fn new(output: Output, zero: i64, name_width: usize) -> Screen {
        let live = (output == Output::Text && terminal::size().is_some()).then(LiveScreen::default);
        Screen { output, live, pending: Vec::new(), last: Vec::new(), zero, name_width, drawn_at: None }
    }

    /// Adds an event of a container.
    pub(super) fn event(&mut self, at: i64, name: &str, what: &str) {
        let seconds = (at - self.zero).max(0) as f64 / 1000.0;
        let width = self.name_width;
        self.pending.push((at, format!("{seconds:6.2} s  {name:width$}  {}", sanitize(what))));
    }

    /// Adds a line of a container's log. Omits podgate's timestamp, because the events have times.
    pub(super) fn log(&mut self, at: i64, name: &str, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap_or_default();
        let line = if humantime::parse_rfc3339(first).is_ok() { rest } else { line };
        let width = self.name_width;
        self.pending.push((at, format!("{:8}  {name:width$}  | {}", "", sanitize(line))));
    }

    /// Prints the lines that are old enough. `chart` returns the chart for this terminal width.
    pub(super) fn flush(
        &mut self,
        now: i64,
        clock: Instant,
        chart: impl FnOnce(usize) -> String,
    ) -> Result<(), String> {
        self.print_lines(now - DELAY_MS)?;
        let is_due = self.drawn_at.is_none_or(|drawn| drawn + REDRAW_INTERVAL <= clock);
        let Some(live) = self.live.as_mut().filter(|_| is_due) else { return Ok(()) };
        self.drawn_at = Some(clock);
        let size = terminal::size().unwrap_or((80, 24));
        let text = format!("{}\n{}\n", chart(size.0), self.last.join("\n"));
        write_stdout(&live.draw(&text, size)).map(|_| ())
    }

    /// Prints all remaining lines. On a terminal, only the last lines stay, without the chart above them.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.print_lines(i64::MAX)?;
        match self.live.as_mut() {
            Some(live) => {
                let text = self.last.join("\n") + "\n";
                write_stdout(&live.draw(&text, terminal::size().unwrap_or((80, 24)))).map(|_| ())
            }
            None => Ok(()),
        }
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

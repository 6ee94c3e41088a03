//! Prints events and logs, one line each.

use super::now_ms;
use super::script::Script;
use crate::output::{print_stderr, write_stdout};
use crate::timeline::Output;
use crate::try_run::args::Try;
use podgate::core::text::sanitize;
use std::io::Write;

/// Time for which a line is kept back. Events of several processes arrive out of order.
pub(super) const DELAY_MS: i64 = 100;

#[derive(Debug)]
pub(super) struct Screen {
    output: Output,
    is_verbose: bool,
    /// Lines that are not printed yet, with their time in milliseconds since 1970.
    pending: Vec<(i64, String)>,
    /// Start of the Pod in milliseconds since 1970.
    zero: i64,
    name_width: usize,
}

impl Screen {
    pub(super) fn new(args: &Try, zero: i64, name_width: usize) -> Screen {
        let (output, is_verbose) = (args.output, args.verbose);
        Screen { output, is_verbose, pending: Vec::new(), zero, name_width }
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

    /// Prints the lines up to this time.
    pub(super) fn print(&mut self, until: i64) -> Result<(), String> {
        self.pending.sort_by_key(|(at, _)| *at);
        let count = self.pending.partition_point(|(at, _)| *at <= until);
        for (_, line) in self.pending.drain(..count) {
            if self.output == Output::Text {
                write_stdout(&(line + "\n"))?;
            } else {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
        Ok(())
    }
}

//! Prints events and logs, one line each, and at the end the chart and the verdict. On a terminal, the chart grows
//! below the lines.

use super::history::{ContainerHistory, Incarnation, Outcome, outcome, stop_sentences, verdict_sentences};
use super::now_ms;
use super::run_plan::RunPlan;
use crate::common_args::OutputFormat;
use crate::error::CommandResult;
use crate::output::{print_stderr, write_stdout};
use crate::pod::shape::Role;
use crate::status::screen::LiveScreen;
use crate::terminal;
use crate::timeline::build::bars;
use crate::timeline::shape::{Moment, Row, Source, Timeline, format_seconds};
use crate::timeline::{render, text};
use crate::try_run::TryArgs;
use podgate::core::container::Mode;
use podgate::core::text::sanitize;
use podgate::order::finding::Level;
use std::io::Write;
use std::process::ExitCode;

/// Delay before a line is printed, in milliseconds, because events of several processes arrive out of order.
pub(super) const PRINT_DELAY_MS: i64 = 100;
const REDRAW_MS: i64 = 100;

pub(super) struct Screen<'a> {
    args: &'a TryArgs,
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
    pub(super) fn new(args: &'a TryArgs, zero: i64, name_width: usize) -> Screen<'a> {
        let live =
            (args.output == OutputFormat::Text && terminal::columns_and_rows().is_some()).then(LiveScreen::default);
        Screen { args, live, drawn_at: 0, pending: Vec::new(), zero, name_width }
    }

    pub(super) fn add_event(&mut self, at: i64, name: &str, what: &str) {
        let seconds = (at - self.zero).max(0) as f64 / 1000.0;
        let width = self.name_width;
        self.pending.push((at, format!("{seconds:6.2} s  {name:width$}  {}", sanitize(what))));
    }

    /// Adds a line of a container's log. Omits podgate's timestamps and, without `--verbose`, podgate's INFO lines,
    /// because the events show the same.
    pub(super) fn add_log_line(&mut self, name: &str, line: &str) {
        let own = line.split_once(' ').filter(|(time, _)| humantime::parse_rfc3339(time).is_ok());
        if own.is_some_and(|(_, rest)| rest.starts_with("INFO")) && !self.args.verbose {
            return;
        }
        let (line, width) = (own.map_or(line, |(_, rest)| rest), self.name_width);
        self.pending.push((now_ms(), format!("{:8}  {name:width$}  | {}", "", sanitize(line))));
    }

    /// Prints the containers and the notes.
    pub(super) fn announce(&self, plan: &RunPlan) -> CommandResult<()> {
        let names: Vec<&str> = plan.tasks[1..].iter().map(|task| task.name.as_str()).collect();
        let head = format!("{}: {}", plan.title, names.join(", "));
        for line in std::iter::once(&head).chain(&plan.notes) {
            match self.args.output {
                OutputFormat::Text => _ = write_stdout(&format!("{}\n", sanitize(line)))?,
                OutputFormat::Json => print_stderr(Level::Note, line),
            }
        }
        Ok(())
    }

    /// Returns true if the chart must be drawn again: periodically, or because a line up to `until`, in milliseconds
    /// since 1970, will be printed.
    pub(super) fn needs_redraw(&self, until: i64) -> bool {
        self.live.is_some()
            && (now_ms() - self.drawn_at >= REDRAW_MS || self.pending.iter().any(|(at, _)| *at <= until))
    }

    /// Prints the lines up to this time, and replaces the chart on a terminal.
    pub(super) fn print(&mut self, until: i64, chart: Option<&str>) -> CommandResult<()> {
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
        let size = terminal::columns_and_rows().unwrap_or((80, 24));
        self.drawn_at = now_ms();
        let text = format!("{}{lines}{}", live.draw("", size), live.draw(chart.unwrap_or_default(), size));
        write_stdout(&text).map(drop)
    }
}

/// Result of a run. Times are in milliseconds since 1970.
#[derive(Default)]
pub(super) struct RunResult<'a> {
    pub(super) title: &'a str,
    /// Start of the Pod.
    pub(super) zero: i64,
    /// Histories at the time of the verdict (`at_stop`) and at the end of the run (`stopped`). The first history in
    /// each list is that of the sidecar.
    pub(super) at_stop: Vec<ContainerHistory>,
    pub(super) stopped: Vec<ContainerHistory>,
    /// Time of the verdict (`judged_at`), and time at which the containers began to stop (`stopped_at`).
    pub(super) judged_at: i64,
    pub(super) stopped_at: i64,
}

/// Prints the chart and the verdict.
pub(super) fn print_result(args: &TryArgs, run: RunResult<'_>) -> CommandResult {
    let title = run.title;
    let start = outcome(&run.at_stop);
    let stops = if args.stop { stop_sentences(&run.stopped, run.stopped_at) } else { Vec::new() };
    let outcome = if stops.iter().all(|(is_kept, _)| *is_kept) { start } else { Outcome::Broken };
    let (shown, to) = if args.stop { (&run.stopped[..], now_ms()) } else { (&run.at_stop[..], run.judged_at) };
    let mut timeline = timeline(title, shown, run.zero, to + ((to - run.zero) / 24).max(100));
    // Containers without probes run on for a while before the verdict.
    let ready = run.at_stop.iter().flat_map(|own| own.runs.iter().filter_map(|run| own.ready_at(run))).max();
    let [took, start_took] = [run.judged_at, ready.unwrap_or(run.judged_at)].map(|at| format_seconds(at - run.zero));
    timeline.summary = match outcome {
        Outcome::InOrder => format!("The order was kept: {title} started in {start_took}."),
        Outcome::Broken => format!("The order of {title} was broken."),
        Outcome::Incomplete => format!("Not all containers of {title} were Ready after {took}."),
    };
    timeline.started = start == Outcome::InOrder;
    let is_timeout = i64::try_from(args.timeout.as_millis()).is_ok_and(|limit| run.judged_at - run.zero >= limit);
    timeline.notes = verdict_sentences(&run.at_stop, if is_timeout { "in time" } else { "when you stopped the run" });
    timeline.notes.extend(stops.into_iter().map(|(_, text)| text));
    let separator = if args.output == OutputFormat::Text { "\n" } else { "" };
    write_stdout(&format!("{separator}{}", render(&timeline, args.output, None)))?;
    Ok(ExitCode::from(outcome as u8))
}

pub(super) fn live_chart(title: &str, histories: &[ContainerHistory], zero: i64) -> String {
    let now = now_ms();
    let mut timeline = timeline(title, histories, zero, now);
    timeline.summary = format!("{title} after {}:", format_seconds(now - zero));
    format!("\n{}", text::render_summary_and_chart(&timeline, None))
}

/// Returns the timeline between two times in milliseconds since 1970, without summary and notes.
/// The first history is that of the sidecar.
fn timeline(pod: &str, histories: &[ContainerHistory], from: i64, to: i64) -> Timeline {
    let to = to.max(from + 1);
    let rows = histories.iter().enumerate().map(|(index, own)| match index {
        0 => row(own, Role::Sidecar, None, to),
        _ => row(own, Role::Container, Some(from), to),
    });
    Timeline { namespace: "try".into(), pod: pod.into(), from, to, containers: rows.collect(), ..Timeline::default() }
}

/// Returns the row of a container. The row has the times of the last run, and the bars of all runs.
fn row(own: &ContainerHistory, role: Role, mut wait_from: Option<i64>, to: i64) -> Row {
    let mut all = Vec::new();
    for run in &own.runs {
        all.extend(bars(&run_row(own, role, Some(run)), wait_from, to));
        wait_from = wait_from.and(run.ended).map(|(at, _)| at);
    }
    let restarts = u32::try_from(own.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
    Row { bars: all, restarts, ..run_row(own, role, own.runs.last()) }
}

fn run_row(own: &ContainerHistory, role: Role, run: Option<&Incarnation>) -> Row {
    let moment = |at| Moment { at, exact: true, by: Source::Podgate };
    let created = run.map(|run| moment(run.created));
    let started = if role == Role::Sidecar { created } else { run.and_then(|run| run.started).map(moment) };
    Row {
        name: own.task.name.clone(),
        role,
        mode: if own.task.has_gate { Mode::Entrypoint } else { Mode::None },
        created,
        gate: created.filter(|_| !own.task.conditions.is_empty()),
        opened: started.filter(|_| own.task.has_gate),
        started,
        ready: run.and_then(|run| own.ready_at(run)).map(moment),
        ended: run.and_then(|run| run.ended).map(|(at, _)| moment(at)),
        ..Row::default()
    }
}

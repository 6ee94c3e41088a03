//! Prints the chart and the verdict of a run.

use super::history::{History, Incarnation, Outcome, outcome, sentences, stop_sentences};
use super::now_ms;
use crate::common_args::OutputFormat;
use crate::output::write_stdout;
use crate::pod::shape::Role;
use crate::timeline::build::bars;
use crate::timeline::shape::{Moment, Row, Source, Timeline, format_seconds};
use crate::timeline::{render, text};
use crate::try_run::args::Try;
use podgate::core::container::Mode;
use std::process::ExitCode;

/// Result of a run. Times are in milliseconds since 1970.
#[derive(Default)]
pub(super) struct RunResult<'a> {
    pub(super) title: &'a str,
    /// Start of the Pod.
    pub(super) zero: i64,
    /// Histories at the time of the verdict (`at_stop`) and at the end of the run (`stopped`). The first history in
    /// each list is that of the sidecar.
    pub(super) at_stop: Vec<History>,
    pub(super) stopped: Vec<History>,
    /// Time of the verdict (`judged_at`), and time at which the containers began to stop (`stopped_at`).
    pub(super) judged_at: i64,
    pub(super) stopped_at: i64,
}

pub(super) fn print(args: &Try, run: RunResult<'_>) -> Result<ExitCode, String> {
    let title = run.title;
    let start = outcome(&run.at_stop);
    let stops = if args.stop { stop_sentences(&run.stopped, run.stopped_at) } else { Vec::new() };
    let outcome = if stops.iter().all(|(is_kept, _)| *is_kept) { start } else { Outcome::Broken };
    let (shown, to) = if args.stop { (&run.stopped[..], now_ms()) } else { (&run.at_stop[..], run.judged_at) };
    let mut timeline = timeline(title, shown, run.zero, to + ((to - run.zero) / 24).max(100));
    let took = format_seconds(run.judged_at - run.zero);
    timeline.summary = match outcome {
        Outcome::InOrder => format!("The order was kept: {title} started in {took}."),
        Outcome::Broken => format!("The order of {title} was broken."),
        Outcome::Incomplete => format!("Not all containers of {title} were Ready after {took}."),
    };
    timeline.started = start == Outcome::InOrder;
    let is_timeout = i64::try_from(args.timeout.as_millis()).is_ok_and(|limit| run.judged_at - run.zero >= limit);
    timeline.notes = sentences(&run.at_stop, if is_timeout { "in time" } else { "when you stopped the run" });
    timeline.notes.extend(stops.into_iter().map(|(_, text)| text));
    let separator = if args.output == OutputFormat::Text { "\n" } else { "" };
    write_stdout(&format!("{separator}{}", render(&timeline, args.output, None)))?;
    Ok(ExitCode::from(outcome as u8))
}

pub(super) fn live_chart(title: &str, histories: &[History], zero: i64) -> String {
    let now = now_ms();
    let mut timeline = timeline(title, histories, zero, now);
    timeline.summary = format!("{title} after {}:", format_seconds(now - zero));
    format!("\n{}", text::render_chart(&timeline, None))
}

/// Returns the timeline between two times in milliseconds since 1970, without summary and notes.
/// The first history is that of the sidecar.
fn timeline(pod: &str, histories: &[History], from: i64, to: i64) -> Timeline {
    let to = to.max(from + 1);
    let rows = histories.iter().enumerate().map(|(index, own)| match index {
        0 => row(own, Role::Sidecar, None, to),
        _ => row(own, Role::Container, Some(from), to),
    });
    Timeline {
        namespace: "try".to_owned(),
        pod: pod.to_owned(),
        from,
        to,
        containers: rows.collect(),
        ..Timeline::default()
    }
}

/// Returns the row of a container. The row has the times of the last run, and the bars of all runs.
fn row(own: &History, role: Role, mut begin: Option<i64>, to: i64) -> Row {
    let mut all = Vec::new();
    for run in &own.runs {
        all.extend(bars(&run_row(own, role, Some(run)), begin, to));
        begin = begin.and(run.ended).map(|(at, _)| at);
    }
    let restarts = u32::try_from(own.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
    Row { bars: all, restarts, ..run_row(own, role, own.runs.last()) }
}

fn run_row(own: &History, role: Role, run: Option<&Incarnation>) -> Row {
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

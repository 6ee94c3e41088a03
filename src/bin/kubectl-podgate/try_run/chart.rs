//! Converts the histories to a timeline, which `timeline` draws.

use super::history::{History, Incarnation};
use crate::pod::shape::Role;
use crate::timeline::build::bars;
use crate::timeline::shape::{Moment, Row, Source, Timeline};
use podgate::core::container::Mode;

/// Texts and times of the chart.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) notes: Vec<String>,
    pub(super) is_complete: bool,
    /// Beginning and end of the chart, in milliseconds since 1970.
    pub(super) from: i64,
    pub(super) to: i64,
}

pub(super) fn timeline(frame: Frame, sidecar: &History, containers: &[History]) -> Timeline {
    let Frame { title, summary, notes, is_complete, from, to } = frame;
    let to = to.max(from + 1);
    let sidecar = row(sidecar, Role::Sidecar, None, to);
    let rows = containers.iter().map(|own| row(own, Role::Container, Some(from), to));
    Timeline {
        namespace: "try".to_owned(),
        pod: title,
        summary,
        started: is_complete,
        from,
        to,
        marks: Vec::new(),
        containers: std::iter::once(sidecar).chain(rows).collect(),
        notes,
    }
}

/// Returns the row of a container. The row has the times of the first run, and the bars of all runs.
fn row(own: &History, role: Role, mut begin: Option<i64>, to: i64) -> Row {
    let mode = if own.has_gate { Mode::Entrypoint } else { Mode::None };
    let mut all = Vec::new();
    for run in &own.runs {
        let row = run_row(own, role, mode, run);
        all.extend(bars(&row, begin, to));
        begin = begin.and(run.ended).map(|(at, _)| at);
    }
    let first = run_row(own, role, mode, own.runs.first().unwrap_or(&Incarnation::default()));
    let restarts = u32::try_from(own.runs.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let created = first.created.filter(|_| !own.runs.is_empty());
    Row { bars: all, restarts, created, ..first }
}

fn run_row(own: &History, role: Role, mode: Mode, run: &Incarnation) -> Row {
    let moment = |at| Moment { at, exact: true, by: Source::Podgate };
    let created = Some(moment(run.created));
    let started = if role == Role::Sidecar { created } else { run.started.map(moment) };
    Row {
        name: own.name.clone(),
        role,
        mode,
        pulled: None,
        pull_ms: None,
        created,
        gate: created.filter(|_| own.has_gate && !own.conditions.is_empty()),
        opened: started.filter(|_| own.has_gate),
        started,
        ready: own.ready_at(run).filter(|_| own.has_probe).map(moment),
        ended: run.ended.map(|(at, _)| moment(at)),
        restarts: 0,
        bars: Vec::new(),
    }
}

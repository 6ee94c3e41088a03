//! Sentences: all of it in one, and what is not known.

use super::event::Event;
use super::shape::{BarKind, Row, Timeline, format_seconds};
use crate::pod::shape::{Role, View};

pub(crate) fn summary(timeline: &Timeline, deleting: bool) -> String {
    let name = format!("Pod {}/{}", timeline.namespace, timeline.pod);
    let ordered = || timeline.containers.iter().filter(|row| row.role == Role::Container);
    let last = ordered().filter_map(|row| Some((row.name.as_str(), row.ready?.at))).max_by_key(|(_, at)| *at);
    let all = ordered().all(|row| row.ready.is_some() || row.ended.is_some());
    match last {
        _ if deleting => format!("{name} is being deleted."),
        _ if !timeline.started => {
            format!("{name} is starting, for {} now.", format_seconds(timeline.to - timeline.from))
        }
        Some((container, at)) if all => {
            let took = format_seconds(at - timeline.from);
            format!("{name} took {took} from its creation until {container}, the last one, was Ready.")
        }
        _ => format!("{name} has started."),
    }
}

/// What is not known, and why.
pub(crate) fn notes(timeline: &Timeline, view: &View, events: Option<&[Event]>, has_times: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let ordered = || timeline.containers.iter().filter(|row| row.role == Role::Container);
    match events {
        None => notes.push(
            "The events could not be read (the right to list events is wanting): pulls are not shown.".to_owned(),
        ),
        Some([]) => notes.push(
            "There are no events any more (most clusters keep them for an hour): pulls are not shown.".to_owned(),
        ),
        Some(_) => {}
    }
    if let Some(why) = &view.stale_reason {
        notes.push(format!("What the sidecar has published is not believed: {why}."));
    } else if timeline.containers.iter().all(|row| row.role != Role::Sidecar) {
        notes.push(
            "No sidecar of podgate's is in its spec: when a container was Ready nobody has written down.".to_owned(),
        );
    } else if !has_times {
        notes.push("The sidecar has written down no times: when a container was Ready, and how long a gate waited, is not known.".to_owned());
    }
    let late = ordered().filter(|row| row.started.is_some_and(|moment| !moment.exact));
    let late: Vec<&str> = late.map(|row| row.name.as_str()).collect();
    if !late.is_empty() && has_times {
        notes.push(format!(
            "The sidecar saw the start of {} later than the kubelet: it is shown by the kubelet's second.",
            late.join(", ")
        ));
    }
    for row in timeline.containers.iter().filter(|row| row.restarts > 0) {
        let times = if row.restarts == 1 { "once".to_owned() } else { format!("{} times", row.restarts) };
        notes.push(format!(
            "{} was started again {times}: shown is its first start in this sandbox, as far as it is known.",
            row.name
        ));
    }
    if has_times && timeline.containers.iter().flat_map(|row| &row.bars).any(|bar| bar.kind == BarKind::Run) {
        notes.push("Of what is shown as running, nobody has written down when it was Ready.".to_owned());
    }
    let grid = timeline.marks.iter().map(|mark| mark.moment).chain(timeline.containers.iter().flat_map(Row::moments));
    if grid.into_iter().any(|moment| !moment.exact) {
        notes.push("~ is a time in whole seconds, from the kubelet's status or an event: it was up to 1 s later. So is the creation, at 0.".to_owned());
    }
    notes
}

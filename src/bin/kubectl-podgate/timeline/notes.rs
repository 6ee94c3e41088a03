//! The sentences of the timeline: a summary, and notes about missing times.

use super::shape::{BarKind, Row, Timeline, format_seconds};
use crate::pod::shape::{Role, View};
use k8s_openapi::api::core::v1::Event;

pub(crate) fn summary(timeline: &Timeline, deleting: bool) -> String {
    let name = format!("Pod {}/{}", timeline.namespace, timeline.pod);
    let ordered = || timeline.containers.iter().filter(|row| row.role == Role::Container);
    let last = ordered().filter_map(|row| Some((row.name.as_str(), row.ready?.at))).max_by_key(|(_, at)| *at);
    let all = ordered().all(|row| row.ready.is_some() || row.ended.is_some());
    match last {
        _ if deleting => format!("{name} is being deleted."),
        _ if !timeline.started => {
            format!("{name} has been starting for {}.", format_seconds(timeline.to - timeline.from))
        }
        Some((container, at)) if all => {
            let took = format_seconds(at - timeline.from);
            format!("{name} took {took} from its creation until {container}, the last one, was Ready.")
        }
        _ => format!("{name} has started."),
    }
}

/// Returns notes about missing and inexact times, with the reason for each.
pub(crate) fn notes(timeline: &Timeline, view: &View, events: Option<&[Event]>, has_times: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = match events {
        None => Some("The events could not be read (listing events may not be permitted)"),
        Some([]) => Some("No events are left (most clusters keep them for one hour)"),
        Some(_) => None,
    };
    notes.extend(missing.map(|why| format!("{why}: image pulls are not shown.")));
    if let Some(why) = &view.stale_reason {
        notes.push(format!("The sidecar's published times are ignored: {why}."));
    } else if timeline.containers.iter().all(|row| row.role != Role::Sidecar) {
        notes.push("The Pod has no podgate sidecar, so no times of readiness are recorded, and a gate that has opened counts as running since its start.".to_owned());
    } else if !has_times {
        notes.push("The sidecar has recorded no times: readiness and gate waits are not shown.".to_owned());
    }
    for row in timeline.containers.iter().filter(|row| row.restarts > 0) {
        let times = if row.restarts == 1 { "once".to_owned() } else { format!("{} times", row.restarts) };
        notes.push(format!(
            "{} was restarted {times}: the chart shows its first start in this sandbox, if it is known.",
            row.name
        ));
    }
    if has_times && timeline.containers.iter().flat_map(|row| &row.bars).any(|bar| bar.kind == BarKind::Run) {
        notes.push("For containers shown as running, no time of readiness is recorded.".to_owned());
    }
    let marks = timeline.marks.iter().map(|mark| mark.moment);
    if marks.chain(timeline.containers.iter().flat_map(Row::unsorted_moments)).any(|moment| !moment.exact) {
        notes.push("~ marks a time that the kubelet or an event reports in whole seconds; the real time is up to 1 s later. The same applies to the Pod's creation, which is 0 s here.".to_owned());
    }
    notes
}

//! Builds the timeline of a Pod's start from the Pod and its events. Pure functions.
//!
//! For a time in whole seconds, the real time is up to 1 s later. If the sidecar observed the same event within that
//! second, the sidecar's milliseconds are used. If the sidecar observed the event later, the whole second is used.

use super::notes;
use super::shape::{Bar, BarKind, Mark, Moment, Row, Source, Timeline};
use crate::pod::Pod;
use crate::pod::shape::{PodContainer, Role};
use crate::pod::view::{pod_containers, view};
use k8s_openapi::api::core::v1::Event;
use podgate::core::container::Mode;
use podgate::core::names;
use podgate::core::times::{Milestone, Times};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Uncertainty of a time in whole seconds, in milliseconds.
const SECOND_MS: i64 = 1000;

struct Evidence<'a> {
    pod: &'a Pod,
    events: Option<&'a [Event]>,
    times: Times,
}

/// Builds the timeline of `pod`. `events` is `None` if the events could not be read.
pub(crate) fn build(pod: &Pod, events: Option<&[Event]>, namespace: &str, now: SystemTime) -> Timeline {
    let view = view(pod, namespace, now);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let published =
        annotations.get(names::MILESTONE_TIMES_KEY).filter(|_| view.published.is_some() && view.stale_reason.is_none());
    let times = Times::parse(published.map_or("", String::as_str));
    let evidence = Evidence { pod, events, times };
    let containers = pod_containers(pod);
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);

    let marks = evidence.marks();
    let mut rows: Vec<Row> = containers.iter().map(|container| evidence.row(container)).collect();
    let moments = marks.iter().map(|mark| mark.moment).chain(rows.iter().flat_map(Row::unsorted_moments));
    let all: Vec<i64> = moments.map(|moment| moment.at).collect();
    let from = marks.first().map(|mark| mark.moment.at).or_else(|| all.iter().min().copied()).unwrap_or(now);
    let last = all.iter().max().copied().unwrap_or(from).max(from);
    // The timeline of a started Pod ends shortly after the last known time. The timeline of a starting Pod ends now.
    let to = match view.started || view.deleting {
        true => last + ((last - from) / 12).max(250),
        false => now.max(last),
    }
    .max(from + 1);
    let sidecar = rows.iter().find(|row| row.role == Role::Sidecar).and_then(|row| row.started.or(row.created));
    let wait_from = sidecar.map(|moment| moment.at).or_else(|| {
        let sandbox = marks.iter().filter(|mark| mark.what == "sandbox ready" || mark.what == "scheduled");
        sandbox.map(|mark| mark.moment.at).max()
    });
    for row in &mut rows {
        row.bars = bars(row, wait_from, to);
    }
    let mut timeline = Timeline {
        namespace: namespace.to_owned(),
        pod: view.pod.clone(),
        started: view.started,
        from,
        to,
        marks,
        containers: rows,
        ..Timeline::default()
    };
    timeline.summary = notes::summary(&timeline, view.deleting);
    timeline.notes = notes::notes(&timeline, &view, evidence.events, !evidence.times.is_empty());
    timeline
}

fn parse_millis(text: &str) -> Option<i64> {
    let at = humantime::parse_rfc3339_weak(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Returns true if the event has this reason and is about this container. `None` means the Pod as a whole.
fn is_about(event: &Event, container: Option<&str>, reason: &str) -> bool {
    // The field path names the container, such as `db` in `spec.containers{db}`.
    let named = || event.involved_object.field_path.as_deref()?.split_once('{')?.1.strip_suffix('}');
    named() == container && event.reason.as_deref() == Some(reason)
}

/// Returns the event's time. The scheduler's events have microseconds (`eventTime`), the kubelet's have whole seconds.
fn event_moment(event: &Event) -> Option<Moment> {
    let exact = event.event_time.as_ref().map(|time| time.0);
    let at = exact.or(event.first_timestamp.as_ref().map(|time| time.0))?.as_millisecond();
    Some(Moment { at, exact: exact.is_some(), by: Source::Event })
}

/// Returns the duration of an image pull in milliseconds. Reads the duration from messages such as
/// `Successfully pulled image "x" in 1.2s (1.3s including waiting).`
fn pull_ms(event: &Event) -> Option<i64> {
    let (text, _) = event.message.as_deref()?.split_once(" including waiting")?;
    let took = humantime::parse_duration(text.rsplit_once('(')?.1).ok()?;
    // Ignore implausible durations of more than a day.
    (took < Duration::from_secs(24 * 60 * 60)).then_some(took.as_millis() as i64)
}

/// Merges two records of the same event: `coarse` from the kubelet and `exact` from the sidecar.
fn merge_moments(coarse: Option<Moment>, exact: Option<Moment>) -> Option<Moment> {
    match (coarse, exact) {
        (Some(coarse), Some(exact)) if !coarse.exact && exact.at >= coarse.at + SECOND_MS => Some(coarse),
        (coarse, exact) => exact.or(coarse),
    }
}

impl Evidence<'_> {
    fn marks(&self) -> Vec<Mark> {
        let conditions = self.pod.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let condition = |kind: &str| {
            let met = conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")?;
            let at = parse_millis(met.last_transition_time.as_deref()?)?;
            Some(Moment { at, exact: false, by: Source::Kubelet })
        };
        let created = self.pod.metadata.creation_timestamp.as_ref().and_then(|at| parse_millis(&at.0.to_string()));
        let created = created.map(|at| Moment { at, exact: false, by: Source::Api });
        let scheduled = self.first_event(None, "Scheduled").or_else(|| condition("PodScheduled"));
        let all = [
            ("created", created),
            ("scheduled", scheduled),
            ("sandbox ready", condition("PodReadyToStartContainers")),
            ("Ready", condition("Ready")),
        ];
        all.into_iter().filter_map(|(what, moment)| Some(Mark { what, moment: moment? })).collect()
    }

    /// Returns the first event with this reason for a container, or for the Pod if `container` is `None`.
    fn first_event(&self, container: Option<&str>, reason: &str) -> Option<Moment> {
        let events = self.events.unwrap_or_default().iter().filter(|event| is_about(event, container, reason));
        events.filter_map(event_moment).min_by_key(|moment| moment.at)
    }

    fn row(&self, container: &PodContainer<'_>) -> Row {
        let name = container.spec.name.as_str();
        let by_podgate = |what| {
            let at = i64::try_from(self.times.get(name, what)?).ok()?;
            Some(Moment { at, exact: true, by: Source::Podgate })
        };
        let by_kubelet = |text: &Option<String>| {
            let at = parse_millis(text.as_deref()?).filter(|at| *at > 0)?;
            Some(Moment { at, exact: false, by: Source::Kubelet })
        };
        let kubelet = &container.kubelet;
        // After a restart, the status has only the last start. The events still have the first start.
        let first = self.first_event(Some(name), "Started");
        let kubelet_start = by_kubelet(&kubelet.started_at).filter(|_| kubelet.restarts == 0).or(first);
        let mode = container.gate.as_ref().map_or(Mode::None, |gate| gate.mode);
        let opened = by_podgate(Milestone::GateOpened);
        // Without published times, only the kubelet shows that a gate waits.
        let waits = opened.is_none() && kubelet.is_in_gate;
        let gate = by_podgate(Milestone::GateWaiting).or(kubelet_start.filter(|_| waits));
        let sidecar_start = by_podgate(Milestone::Started);
        let (created, started) = match mode {
            // The kubelet starts the gate, and the gate starts the program.
            Mode::Entrypoint => (merge_moments(kubelet_start, gate), opened.or(sidecar_start)),
            _ => {
                // A held container starts only after its gate has opened. So if the gate opened in the second that the
                // kubelet reports as the start, use the time of the opening.
                let in_opening_second = |start: &Moment, opened: &Moment| {
                    mode == Mode::Hold && !start.exact && (start.at..start.at + SECOND_MS).contains(&opened.at)
                };
                let start = merge_moments(kubelet_start, sidecar_start).map(|start| match opened {
                    Some(opened) if in_opening_second(&start, &opened) => Moment { at: opened.at, ..start },
                    _ => start,
                });
                (start, start)
            }
        };
        let kubelet_end = by_kubelet(&kubelet.finished_at).filter(|_| kubelet.restarts == 0);
        let ended = merge_moments(kubelet_end, by_podgate(Milestone::Ended));
        let is_pull = |event: &&Event| is_about(event, Some(name), "Pulled");
        Row {
            name: name.to_owned(),
            role: container.role,
            mode,
            pulled: self.first_event(Some(name), "Pulled"),
            pull_ms: self.events.unwrap_or_default().iter().filter(is_pull).find_map(pull_ms),
            created,
            gate,
            opened,
            started,
            ready: by_podgate(Milestone::Ready),
            ended,
            restarts: kubelet.restarts,
            bars: Vec::new(),
        }
    }
}

/// Returns the bars of one container. Its first wait begins at `wait_from`; `None` omits only that bar.
pub(crate) fn bars(row: &Row, wait_from: Option<i64>, to: i64) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut add = |kind, from: Moment, until: i64| {
        if until > from.at {
            bars.push(Bar { kind, from: from.at, to: until, exact: from.exact });
        }
    };
    let pull = row.pull_ms.zip(row.pulled).map(|(took, at)| (Moment { at: at.at - took, ..at }, at.at));
    let held = row.gate.filter(|_| row.mode == Mode::Hold);
    let first = pull.map(|(from, _)| from.at).or(held.or(row.created).map(|moment| moment.at));
    if row.role == Role::Container
        && let Some(wait_from) = wait_from
    {
        add(BarKind::Wait, Moment { at: wait_from, exact: true, by: Source::Podgate }, first.unwrap_or(to));
    }
    if let Some((from, until)) = pull {
        add(BarKind::Pull, from, until.min(row.created.map_or(until, |moment| moment.at)));
    }
    if let Some(gate) = held {
        let created = row.created.map_or(to, |moment| moment.at);
        let opened = row.opened.map_or(created, |moment| moment.at.min(created));
        // The kubelet pulls the image while the container is held, so the gate's bar begins after the pull.
        add(BarKind::Gate, Moment { at: pull.map_or(gate.at, |(_, until)| until.max(gate.at)), ..gate }, opened);
        add(BarKind::Wait, Moment { at: opened, ..gate }, created);
    }
    let end = row.ended.map_or(to, |moment| moment.at);
    if row.mode == Mode::Entrypoint
        && let Some(created) = row.created
    {
        // Without the sidecar's times, a waiting gate cannot be distinguished from a running program.
        let is_known = row.gate.is_some() || row.started.is_some();
        add(if is_known { BarKind::Gate } else { BarKind::Run }, created, row.started.map_or(end, |moment| moment.at));
    }
    if let Some(started) = row.started {
        match row.ready {
            Some(ready) => {
                add(BarKind::Start, started, ready.at.min(end));
                add(BarKind::Ready, ready, end);
            }
            // The sidecar records this container, but has not recorded it as Ready. So the program is still starting.
            None if row.role == Role::Container && started.by == Source::Podgate => add(BarKind::Start, started, end),
            None => add(BarKind::Run, started, end),
        }
    }
    bars
}

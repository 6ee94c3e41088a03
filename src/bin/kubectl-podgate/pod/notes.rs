//! Sentences: all of it in one, and what is odd.

use super::shape::{PodContainer, Role, Row, View};
use super::since::parse_time;
use crate::pod::Pod;
use podgate::core::container::Mode;
use podgate::core::names;
use podgate::core::snapshot::{REASON_ENDED, Unreadable};
use podgate::core::state::Phase;
use std::time::{Duration, SystemTime};

/// What the sentences are made from.
pub(crate) struct Facts<'a> {
    pub(crate) view: &'a View,
    pub(crate) pod: &'a Pod,
    /// Why there is nothing published to go by.
    pub(crate) snapshot_error: Option<&'a Unreadable>,
    /// The published phase, if it counts.
    pub(crate) phase: Option<Phase>,
}

/// Clocks of different machines may be this far apart.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);

/// Why what is published can't be of the pod as it is now. (That it is can't be told from here: the sandbox that the pod has now
/// shows only inside of it.)
pub(crate) fn stale_reason(pod: &Pod, found: &[PodContainer<'_>], seen: Option<&str>) -> Option<String> {
    if pod.spec.node_name.is_none() {
        return Some("it was there before the Pod had a node".to_owned());
    }
    let seen = parse_time(seen?)?;
    let made = pod.metadata.creation_timestamp.as_ref().and_then(|at| parse_time(&at.0.to_string()));
    if made.is_some_and(|made| seen + CLOCK_SKEW_MAX < made) {
        return Some("it is older than the Pod, so it came with its template".to_owned());
    }
    let sidecar = found.iter().find(|found| found.role == Role::Sidecar)?;
    let started: SystemTime = sidecar.kubelet.started_at.as_deref().and_then(parse_time)?;
    // Both are of the node's clock, in whole seconds.
    (seen + Duration::from_secs(1) < started).then(|| "the sidecar has been started anew since".to_owned())
}

pub(crate) fn summary(facts: &Facts<'_>) -> String {
    let view = facts.view;
    let name = format!("Pod {}/{}", view.namespace, view.pod);
    if view.deleting {
        return format!("{name} is being deleted.");
    }
    if !uses_podgate(view) {
        return format!("{name} has nothing of podgate in it.");
    }
    if view.started {
        return format!("{name} has started.");
    }
    // Those that others wait for, and that don't wait for others themselves.
    let first = |row: &&Row| !row.holds_back.is_empty() && row.waits_for.iter().all(|c| c.gate_of == row.name);
    let say = |row: &Row| {
        let conditions: Vec<&str> = row.waits_for.iter().map(|c| c.condition.as_str()).collect();
        let why = if conditions.is_empty() { String::new() } else { format!(" until {}", conditions.join(", ")) };
        format!("{} holds back {}{why}", row.name, row.holds_back.join(", "))
    };
    let holding: Vec<String> = view.containers.iter().filter(first).map(say).collect();
    if holding.is_empty() {
        format!("{name} is starting.")
    } else {
        format!("{name} is starting: {}.", holding.join("; "))
    }
}

fn uses_podgate(view: &View) -> bool {
    view.published.is_some() || view.containers.iter().any(|row| row.role == Role::Sidecar || row.timeout.is_some())
}

pub(crate) fn notes(facts: &Facts<'_>) -> Vec<String> {
    let view = facts.view;
    let mut notes = Vec::new();
    if !uses_podgate(view) {
        let what =
            "Neither a sidecar nor a hook or gate of podgate's is in its spec: the kubelet's word is all there is.";
        return vec![what.to_owned()];
    }
    note_unpublished(facts, &mut notes);
    if let Some(why) = &view.stale_reason {
        notes.push(format!("What is published is not believed here: {why}."));
    }
    if view.deleting {
        note_deletion(facts, &mut notes);
    } else {
        note_frozen_status(view, &mut notes);
    }
    for row in &view.containers {
        note_stuck(row, &mut notes);
        note_disagreement(facts, row, &mut notes);
    }
    note_overrides(facts, &mut notes);
    notes
}

/// Why nothing is published, as far as it can be seen from here.
fn note_unpublished(facts: &Facts<'_>, notes: &mut Vec<String>) {
    let Some(no_word) = facts.snapshot_error else { return };
    if let Unreadable::Invalid(key) = no_word {
        notes.push(format!(
            "What is published is not podgate's: {key} is missing or not valid. The sidecar mends that at its start."
        ));
        return;
    }
    let view = facts.view;
    let Some(sidecar) = view.containers.iter().find(|row| row.role == Role::Sidecar) else {
        notes.push("No sidecar is in its spec: the hooks look for themselves (--check), and what they see shows in the containers' termination messages.".to_owned());
        return;
    };
    let name = &sidecar.name;
    notes.push(match sidecar.kubelet.state {
        _ if view.node.is_none() => "Nothing is published yet: the Pod has no node.".to_owned(),
        Some("running") => format!(
            "Nothing is published, and the sidecar runs: it may have been told to use the board alone (--publish board), or it has no right to patch \
             this Pod (manifests/rbac.yaml), or no way to the API server. Its log says which: kubectl logs -n {} {} -c {name}",
            view.namespace, view.pod
        ),
        _ => format!("Nothing is published yet: the kubelet says of the sidecar {name}: {}.", sidecar.kubelet.describe()),
    });
}

/// Said where the kubelet's column would mislead.
fn note_frozen_status(view: &View, notes: &mut Vec<String>) {
    let by_hook = |row: &&Row| row.mode == Mode::PostStart && row.waits_for.iter().any(|c| c.gate_of == row.name);
    let Some(row) = view.containers.iter().find(by_hook) else { return };
    let limit = row.timeout.as_deref().unwrap_or_default();
    notes.push(format!(
        "While the hook of {} waits (at most {limit}), the kubelet updates nothing of this Pod: its word is from before.",
        row.name
    ));
}

fn note_deletion(facts: &Facts<'_>, notes: &mut Vec<String>) {
    // The kubelet says this of a container from before its first start until its hook has returned.
    let is_creating = |reason: &str| matches!(reason, "ContainerCreating" | "PodInitializing");
    let is_frozen = |row: &&Row| {
        let is_waiting = row.mode == Mode::PostStart && row.kubelet.state == Some("waiting");
        is_waiting && row.kubelet.reason.as_deref().is_some_and(is_creating)
    };
    let Some(first) = facts.view.containers.iter().find(is_frozen) else { return };
    notes.push(match facts.phase {
        Some(Phase::Terminating) => {
            "The sidecar has seen the deletion and let all waiting hooks go: the kubelet works off the rest of its start list, then ends the containers.".to_owned()
        }
        _ => format!(
            "The kubelet ends nothing while a hook waits, and the sidecar has not said yet that it let them go. If it can't (no API, or it is dead), \
             the Pod stays until the hook gives up by itself: that of {} after {}.",
            first.name,
            first.timeout.as_deref().unwrap_or_default()
        ),
    });
}

fn note_stuck(row: &Row, notes: &mut Vec<String>) {
    let bad_wait = [
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
    ];
    let of_kubelet = row.kubelet.reason.as_deref().filter(|reason| bad_wait.contains(reason));
    let Some(reason) = row.stuck.as_deref().or(of_kubelet) else { return };
    let what = match reason {
        REASON_ENDED => "has ended, and the kubelet will not start it again".to_owned(),
        reason => format!("can't go on by itself: {reason}"),
    };
    let message = row.kubelet.message.as_deref().map(|message| format!(" ({})", message.trim())).unwrap_or_default();
    notes.push(format!("{} {what}{message}.", row.name));
}

/// At rest, podgate's word is as of its last look.
fn note_disagreement(facts: &Facts<'_>, row: &Row, notes: &mut Vec<String>) {
    let view = facts.view;
    if !view.started || facts.phase.is_none() || row.kubelet.state != Some("running") {
        return;
    }
    let says = match (row.state, row.kubelet.ready) {
        (Some("Ready"), false) => "not ready",
        (Some("NotReady" | "Started"), true) => "ready",
        _ => return,
    };
    notes.push(format!(
        "{}: the kubelet says {says} now. Once all have started, podgate looks only when somebody waits; its word is as of then.",
        row.name
    ));
}

/// Gates that an operator has opened by hand.
fn note_overrides(facts: &Facts<'_>, notes: &mut Vec<String>) {
    for (key, value) in facts.pod.metadata.annotations.iter().flatten() {
        let Some(container) = key.strip_prefix(names::OVERRIDE_PREFIX) else { continue };
        let (state, sandbox) = value.split_once('@').unwrap_or((value, ""));
        let published = facts.view.published.as_ref();
        notes.push(match published.is_some_and(|published| published.sandbox == sandbox) {
            true => format!("An operator has set {container} to {state} by hand ({key})."),
            false => format!("{key}={value} is not in force: it is of another sandbox than what is published."),
        });
    }
}

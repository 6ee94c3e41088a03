//! Plans the annotations to write for the requested overrides, and describes the hooks and gates that these overrides
//! open. Pure functions.

use super::args::OverrideTarget;
use crate::pod::Pod;
use crate::pod::shape::PodContainer;
use crate::pod::view::{pod_containers, view};
use podgate::core::container::Mode;
use podgate::core::names::OVERRIDE_PREFIX;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Stage, State};
use podgate::core::until::WaitCondition;
use std::time::SystemTime;

#[derive(Debug)]
pub(super) struct AnnotationChange {
    pub(super) annotation: String,
    /// The new value; `None` if the annotation is removed.
    pub(super) value: Option<String>,
    /// The previous value; `None` if the annotation did not exist.
    pub(super) was: Option<String>,
    /// Lines for the user: the state before the change, and the hooks and gates that the change opens.
    pub(super) effects: Vec<String>,
}

#[derive(Debug)]
pub(super) struct OverridePlan {
    pub(super) sandbox: Option<String>,
    pub(super) changes: Vec<AnnotationChange>,
}

/// Plans the overrides that set the states of `targets`. On failure, returns one line with the reason.
pub(super) fn plan_set(
    pod: &Pod,
    namespace: &str,
    targets: &[OverrideTarget],
    now: SystemTime,
) -> Result<OverridePlan, String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(format!("the Pod {name:?} is being deleted: its hooks are released and its gates never open"));
    }
    let containers = pod_containers(pod);
    let view = view(pod, namespace, now);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let before = match (Snapshot::from_annotations(&annotations), &view.stale_reason) {
        (Ok(snapshot), None) => snapshot,
        (Ok(_), Some(why)) => {
            return Err(format!(
                "the Pod's current sandbox is not known yet: the published state is outdated ({why}); retry in a moment"
            ));
        }
        (Err(_), _) => {
            let why = view.notes.first().map_or("Nothing is published.", String::as_str);
            return Err(format!("the Pod's sandbox is unknown, so no state can be set. {why}"));
        }
    };
    let mut after = before.clone();
    for OverrideTarget { container, state } in targets {
        if !before.states.contains_key(container) {
            let tracked: Vec<&str> = before.states.keys().map(String::as_str).collect();
            let tracked = tracked.join(", ");
            return Err(format!(
                "the sidecar does not track {container}, so this state cannot be set; choose one of {tracked}"
            ));
        }
        after.states.extend(state.map(|state| (container.clone(), state)));
    }
    let change = |target: &OverrideTarget| {
        let (container, annotation) = (&target.container, format!("{OVERRIDE_PREFIX}{}", target.container));
        Some(AnnotationChange {
            was: annotations.get(&annotation).cloned(),
            annotation,
            value: Some(format!("{}@{}", target.state?, before.sandbox)),
            effects: effects(&containers, &before, &after, container),
        })
    };
    let changes = targets.iter().filter_map(change).collect();
    Ok(OverridePlan { sandbox: Some(before.sandbox.to_string()), changes })
}

/// Plans the removal of the overrides of `targets`, or of all overrides if `targets` is empty. Fails if a target has
/// no override.
pub(super) fn plan_removal(pod: &Pod, targets: &[OverrideTarget]) -> Result<OverridePlan, String> {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let snapshot = Snapshot::from_annotations(&annotations).ok();
    let overrides = annotations.iter().filter_map(|(key, value)| Some((key.strip_prefix(OVERRIDE_PREFIX)?, value)));
    let mut overrides: Vec<(&str, &String)> = overrides.collect();
    let names: Vec<&str> = overrides.iter().map(|(name, _)| *name).collect();
    if let Some(target) = targets.iter().find(|target| !names.contains(&target.container.as_str())) {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(format!("{} has no override; containers with an override: {names}", target.container));
    }
    overrides.retain(|(name, _)| targets.is_empty() || targets.iter().any(|target| target.container == *name));
    let is_idle = snapshot.as_ref().is_some_and(|snapshot| snapshot.stage == Stage::Started);
    let then = if is_idle { " at its next probe" } else { "" };
    let change = |(name, value): (&str, &String)| {
        let state = snapshot.as_ref().and_then(|snapshot| snapshot.states.get(name));
        let state = state.map_or("unknown", |state| state.as_str());
        AnnotationChange {
            annotation: format!("{OVERRIDE_PREFIX}{name}"),
            value: None,
            was: Some(value.clone()),
            effects: vec![format!(
                "{name} was {state}; the sidecar determines the state of {name} again{then}. Started containers keep running."
            )],
        }
    };
    let changes = overrides.into_iter().map(change).collect();
    Ok(OverridePlan { sandbox: snapshot.as_ref().map(|snapshot| snapshot.sandbox.to_string()), changes })
}

/// Describes the effect of the change from `before` to `after` on the waiting hooks and gates that have conditions on
/// `target`.
fn effects(containers: &[PodContainer<'_>], before: &Snapshot, after: &Snapshot, target: &str) -> Vec<String> {
    let state = |name: &str| before.states.get(name).copied();
    let effect = |(at, container): (usize, &PodContainer<'_>)| {
        let (name, gate) = (&container.spec.name, container.gate.as_ref()?);
        let is_waiting = match gate.mode {
            Mode::None => true,
            Mode::Entrypoint => state(name) == Some(State::Waiting),
            Mode::Hold => !container.kubelet.has_started(),
            // A hook has returned if all containers have started, or a later container runs.
            Mode::PostStart => {
                let runs = |later: &PodContainer<'_>| state(&later.spec.name).is_some_and(|s| s != State::Waiting);
                before.stage == Stage::Starting && !containers[at + 1..].iter().any(runs)
            }
        };
        let is_new = |until: &&WaitCondition| until.container == target && !until.is_met(before) && until.is_met(after);
        let new: Vec<String> = gate.until.iter().filter(is_new).map(WaitCondition::to_string).collect();
        if !is_waiting || new.is_empty() {
            return None;
        }
        let what = if gate.mode == Mode::PostStart { "hook" } else { "gate" };
        let left = gate.until.iter().filter(|until| !until.is_met(after)).map(WaitCondition::to_string);
        let (left, new) = (left.chain(gate.checks.iter().cloned()).collect::<Vec<_>>().join(", "), new.join(", "));
        Some(match left.is_empty() {
            true => format!("opens the {what} of {name} ({new})"),
            false => format!("the {what} of {name}: {new} is met, but the {what} still waits for {left}"),
        })
    };
    let mut lines: Vec<String> = containers.iter().enumerate().filter_map(effect).collect();
    if lines.is_empty() {
        lines.push("opens nothing: no hook or gate waits for this state".to_owned());
    }
    let was = state(target).map_or("unknown", State::as_str);
    lines.insert(0, format!("{target} was {was} until now (published state)"));
    lines
}

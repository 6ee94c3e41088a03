//! Plans the annotations to write for the requested overrides, and describes the effect of each. Pure functions.

use super::OverrideTarget;
use crate::pod::Pod;
use crate::pod::shape::View;
use crate::pod::view::view;
use podgate::core::names::OVERRIDE_PREFIX;
use podgate::core::snapshot::Snapshot;
use std::time::SystemTime;

#[derive(Debug)]
pub(super) struct AnnotationChange {
    pub(super) annotation: String,
    /// The new value; `None` if the annotation is removed.
    pub(super) value: Option<String>,
    /// The previous value; `None` if the annotation did not exist.
    pub(super) was: Option<String>,
    /// Line for the user: the state before the change, and its effect.
    pub(super) effect: String,
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
    for OverrideTarget { container, .. } in targets {
        if !before.states.contains_key(container) {
            let tracked: Vec<&str> = before.states.keys().map(String::as_str).collect();
            let tracked = tracked.join(", ");
            return Err(format!(
                "the sidecar does not track {container}, so this state cannot be set; choose one of {tracked}"
            ));
        }
    }
    let change = |target: &OverrideTarget| {
        let (container, annotation) = (&target.container, format!("{OVERRIDE_PREFIX}{}", target.container));
        Some(AnnotationChange {
            was: annotations.get(&annotation).cloned(),
            annotation,
            value: Some(format!("{}@{}", target.state?, before.sandbox)),
            effect: effect(&view, &before, container),
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
    let change = |(name, value): (&str, &String)| AnnotationChange {
        annotation: format!("{OVERRIDE_PREFIX}{name}"),
        value: None,
        was: Some(value.clone()),
        effect: format!("the sidecar determines the state of {name} again. Started containers keep running."),
    };
    let changes = overrides.into_iter().map(change).collect();
    Ok(OverridePlan { sandbox: snapshot.as_ref().map(|snapshot| snapshot.sandbox.to_string()), changes })
}

/// Describes the state of `target` before the change, and names the containers that waited for `target`.
fn effect(view: &View, before: &Snapshot, target: &str) -> String {
    let was = before.states.get(target).map_or("unknown", |state| state.as_str());
    let held = view.containers.iter().find(|row| row.name == target).map(|row| row.holds_back.join(", "));
    let held = held.filter(|held| !held.is_empty()).unwrap_or_else(|| "no container".to_owned());
    format!("{target} was {was} until now (published state); it held back {held}")
}

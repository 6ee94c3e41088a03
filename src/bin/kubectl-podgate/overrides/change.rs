//! Plans the annotations to write for the requested overrides, and lists the hooks and gates that these overrides open.
//! Pure functions.

use super::args::OverrideTarget;
use crate::pod::Pod;
use crate::pod::shape::{PodContainer, Role};
use crate::pod::view::{pod_containers, view};
use podgate::core::container::Mode;
use podgate::core::names;
use podgate::core::snapshot::Snapshot;
use podgate::core::state::{Phase, State};
use podgate::core::until::{ConditionStatus, WaitCondition};
use serde::Serialize;
use std::time::SystemTime;

/// One annotation to write or remove. The JSON form is a public format: see docs/kubectl-podgate.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnotationChange {
    pub(crate) container: String,
    pub(crate) annotation: String,
    /// The new value; `None` if the annotation is removed.
    pub(crate) value: Option<String>,
    /// The previous value; `None` if the annotation did not exist.
    pub(crate) was: Option<String>,
    /// The container's published state before the change.
    pub(crate) state: Option<&'static str>,
    /// The hooks and gates with conditions that the change meets.
    pub(crate) opens: Vec<GateEffect>,
}

/// A waiting hook or gate with at least one condition that the change meets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GateEffect {
    pub(crate) gate_of: String,
    pub(crate) mode: Mode,
    pub(crate) conditions: Vec<String>,
    /// The conditions that are still unmet. The list is empty if the hook or gate opens.
    pub(crate) still_waits_for: Vec<String>,
    /// The container that the kubelet starts next, if a hook opens.
    pub(crate) then_starts: Option<String>,
}

/// All changes to one Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OverridePlan {
    pub(crate) sandbox: Option<String>,
    /// The published phase; `None` if it does not tell whether the sidecar is idle.
    #[serde(skip)]
    pub(crate) phase: Option<Phase>,
    pub(crate) changes: Vec<AnnotationChange>,
}

/// Plans to set the states of `targets`. On failure, returns one line with the reason.
pub(crate) fn plan_set(
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
    for target in targets {
        check_target(&containers, &target.container)?;
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
    let mut after = before.clone();
    let mut changes = Vec::new();
    for OverrideTarget { container, state } in targets {
        let Some(state) = *state else { continue };
        let Some(was) = before.states.get(container) else {
            let tracked: Vec<&str> = before.states.keys().map(String::as_str).collect();
            let tracked = tracked.join(", ");
            return Err(format!(
                "the sidecar does not track {container}, so its state cannot be set; choose one of {tracked}"
            ));
        };
        after.states.insert(container.clone(), state);
        let annotation = format!("{}{container}", names::OVERRIDE_PREFIX);
        changes.push(AnnotationChange {
            container: container.clone(),
            was: annotations.get(&annotation).cloned(),
            annotation,
            value: Some(format!("{state}@{}", before.sandbox)),
            state: Some(was.as_str()),
            opens: Vec::new(),
        });
    }
    for change in &mut changes {
        change.opens = gate_effects(&containers, &before, &after, &change.container);
    }
    // With a held container, the sidecar is never idle.
    let phase = (!containers.iter().any(PodContainer::is_hold)).then_some(before.phase);
    Ok(OverridePlan { sandbox: Some(before.sandbox.to_string()), phase, changes })
}

/// Plans to remove the overrides of `targets`, or all overrides if `targets` is empty. Fails if a target has no
/// override.
pub(crate) fn plan_removal(pod: &Pod, targets: &[OverrideTarget]) -> Result<OverridePlan, String> {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let snapshot = Snapshot::from_annotations(&annotations).ok();
    let state = |name: &str| snapshot.as_ref()?.states.get(name).copied().map(State::as_str);
    let overrides = annotations.iter().filter_map(|(key, value)| {
        let container = key.strip_prefix(names::OVERRIDE_PREFIX)?;
        Some(AnnotationChange {
            container: container.to_owned(),
            annotation: key.clone(),
            value: None,
            was: Some(value.clone()),
            state: state(container),
            opens: Vec::new(),
        })
    });
    let mut changes: Vec<AnnotationChange> = overrides.collect();
    let is_for = |change: &AnnotationChange, target: &OverrideTarget| change.container == target.container;
    if let Some(target) = targets.iter().find(|target| !changes.iter().any(|change| is_for(change, target))) {
        let names: Vec<&str> = changes.iter().map(|change| change.container.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(format!("{} has no override; containers with an override: {names}", target.container));
    }
    changes.retain(|change| targets.is_empty() || targets.iter().any(|target| is_for(change, target)));
    Ok(OverridePlan {
        sandbox: snapshot.as_ref().map(|snapshot| snapshot.sandbox.to_string()),
        phase: snapshot.as_ref().map(|snapshot| snapshot.phase),
        changes,
    })
}

/// Returns an error unless hooks and gates can wait for the container `name`.
fn check_target(containers: &[PodContainer<'_>], name: &str) -> Result<(), String> {
    let ordered = containers.iter().filter(|c| c.role == Role::Container).map(|c| c.spec.name.as_str());
    let ordered = ordered.collect::<Vec<_>>().join(", ");
    Err(match containers.iter().find(|c| c.spec.name == name).map(|c| c.role) {
        Some(Role::Container) => return Ok(()),
        Some(Role::Sidecar) => {
            format!("{name} is podgate's sidecar, and nothing waits for it; choose one of {ordered}")
        }
        Some(Role::Init) => format!(
            "{name} is an init container, which ends before others start, so nothing waits for it; choose one of {ordered}"
        ),
        None => format!("the Pod has no container {name}; it has {ordered}"),
    })
}

/// Returns the waiting hooks and gates that have conditions on `target` which the change from `before` to `after`
/// meets.
fn gate_effects(containers: &[PodContainer<'_>], before: &Snapshot, after: &Snapshot, target: &str) -> Vec<GateEffect> {
    let is_met = |until: &WaitCondition, snapshot: &Snapshot| until.status(snapshot) == ConditionStatus::Met;
    let effect = |at: usize| {
        let (spec, gate) = (containers[at].spec, containers[at].gate.as_ref()?);
        let name = &spec.name;
        match gate.mode {
            // Skip open gates: the container's program runs.
            Mode::Entrypoint if before.states.get(name) != Some(&State::Waiting) => return None,
            Mode::Hold if containers[at].kubelet.has_started() => return None,
            // Skip hooks that have returned: all containers have started, or a later container runs.
            Mode::PostStart if before.phase != Phase::Starting => return None,
            Mode::PostStart => {
                let runs = |later: &PodContainer<'_>| {
                    before.states.get(&later.spec.name).is_some_and(|s| *s != State::Waiting)
                };
                if containers[at + 1..].iter().any(runs) {
                    return None;
                }
            }
            _ => {}
        }
        let is_newly_met =
            |until: &&WaitCondition| until.container == target && !is_met(until, before) && is_met(until, after);
        let conditions: Vec<String> = gate.until.iter().filter(is_newly_met).map(WaitCondition::to_string).collect();
        if conditions.is_empty() {
            return None;
        }
        let left = gate.until.iter().filter(|until| !is_met(until, after)).map(WaitCondition::to_string);
        let still_waits_for: Vec<String> = left.chain(gate.checks.iter().cloned()).collect();
        let next = containers.get(at + 1).filter(|_| gate.mode == Mode::PostStart && still_waits_for.is_empty());
        Some(GateEffect {
            gate_of: name.clone(),
            mode: gate.mode,
            conditions,
            still_waits_for,
            then_starts: next.map(|next| next.spec.name.clone()),
        })
    };
    (0..containers.len()).filter_map(effect).collect()
}

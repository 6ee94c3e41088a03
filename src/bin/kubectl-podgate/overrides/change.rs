//! From the Pod and what is wanted of it to what is to be written, and what that opens. Pure.

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

/// One annotation that is to be written or taken away. As JSON it is an interface: see docs/kubectl-podgate.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnotationChange {
    pub(crate) container: String,
    pub(crate) annotation: String,
    /// Its value; null where it is taken away.
    pub(crate) value: Option<String>,
    /// Its value until now.
    pub(crate) was: Option<String>,
    /// The container's state, as published until now.
    pub(crate) state: Option<&'static str>,
    /// What it opens, and what it does not.
    pub(crate) opens: Vec<GateEffect>,
}

/// A hook or a gate that waits for the container, and whom the change satisfies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GateEffect {
    /// Whose hook or gate.
    pub(crate) gate_of: String,
    pub(crate) mode: Mode,
    /// The conditions that hold by the change.
    pub(crate) conditions: Vec<String>,
    /// Those for which it goes on waiting; empty if it opens.
    pub(crate) still_waits_for: Vec<String>,
    /// The container that the kubelet starts next, where a hook opens.
    pub(crate) then_starts: Option<String>,
}

/// All that is to be done to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OverridePlan {
    pub(crate) sandbox: Option<String>,
    #[serde(skip)]
    pub(crate) phase: Option<Phase>,
    pub(crate) changes: Vec<AnnotationChange>,
}

/// What setting `wishes` means; or why it can't be, in one line.
pub(crate) fn plan_set(
    pod: &Pod,
    namespace: &str,
    wishes: &[OverrideTarget],
    now: SystemTime,
) -> Result<OverridePlan, String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(format!("the Pod {name:?} is being deleted: its hooks are let go, and its gates never open"));
    }
    let found = pod_containers(pod);
    for wish in wishes {
        check_target(&found, &wish.container)?;
    }
    let view = view(pod, namespace, now);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let before = match (Snapshot::from_annotations(&annotations), &view.stale_reason) {
        (Ok(snapshot), None) => snapshot,
        (Ok(_), Some(why)) => {
            return Err(format!(
                "the sandbox that the Pod has now is not known yet: what is published is not of it, for {why}; try again in a moment"
            ));
        }
        (Err(_), _) => {
            let why = view.notes.first().map_or("nothing is published", String::as_str);
            return Err(format!("no sandbox is known that the state could be set for. {why}"));
        }
    };
    let mut after = before.clone();
    let mut changes = Vec::new();
    for OverrideTarget { container, state } in wishes {
        let Some(state) = *state else { continue };
        let Some(was) = before.states.get(container) else {
            return Err(format!("podgate's sidecar does not follow {container}: no state of it is published"));
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
        change.opens = gate_effects(&found, &before, &after, &change.container);
    }
    Ok(OverridePlan { sandbox: Some(before.sandbox.to_string()), phase: Some(before.phase), changes })
}

/// What taking back means: of `wishes`, or of all that was set.
pub(crate) fn plan_removal(pod: &Pod, wishes: &[OverrideTarget]) -> Result<OverridePlan, String> {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let snapshot = Snapshot::from_annotations(&annotations).ok();
    let state = |name: &str| snapshot.as_ref()?.states.get(name).copied().map(State::as_str);
    let there = annotations.iter().filter_map(|(key, value)| {
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
    let mut changes: Vec<AnnotationChange> = there.collect();
    if let Some(wish) = wishes.iter().find(|wish| changes.iter().all(|change| change.container != wish.container)) {
        let names: Vec<&str> = changes.iter().map(|change| change.container.as_str()).collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("nothing was set by hand of {}; set is: {names}", wish.container));
    }
    changes.retain(|change| wishes.is_empty() || wishes.iter().any(|wish| wish.container == change.container));
    Ok(OverridePlan {
        sandbox: snapshot.as_ref().map(|snapshot| snapshot.sandbox.to_string()),
        phase: snapshot.as_ref().map(|snapshot| snapshot.phase),
        changes,
    })
}

/// Refuses what is no container that anything could wait for.
fn check_target(found: &[PodContainer<'_>], name: &str) -> Result<(), String> {
    let ordered = found.iter().filter(|f| f.role == Role::Container).map(|f| f.spec.name.as_str());
    let ordered = ordered.collect::<Vec<_>>().join(", ");
    Err(match found.iter().find(|found| found.spec.name == name).map(|found| found.role) {
        Some(Role::Container) => return Ok(()),
        Some(Role::Sidecar) => {
            format!("{name} is podgate's own sidecar: nothing waits for it; the Pod has {ordered}")
        }
        Some(Role::Init) => format!(
            "{name} is an init container, which ends before all others start: nothing waits for it; the Pod has {ordered}"
        ),
        None => format!("the Pod has no container {name}; it has {ordered}"),
    })
}

/// The hooks and gates that wait for `container` before, and are satisfied after.
fn gate_effects(found: &[PodContainer<'_>], before: &Snapshot, after: &Snapshot, container: &str) -> Vec<GateEffect> {
    let is_met = |until: &WaitCondition, snapshot: &Snapshot| until.status(snapshot) == ConditionStatus::Met;
    let waits = |at: usize| {
        let (spec, gate) = (found[at].spec, found[at].gate.as_ref()?);
        let name = &spec.name;
        match gate.mode {
            // A gate is there until its own program runs.
            Mode::Entrypoint if before.states.get(name) != Some(&State::Waiting) => return None,
            // Hooks hold back nothing once all have started, or once what comes after them runs.
            Mode::PostStart if before.phase != Phase::Starting => return None,
            Mode::PostStart => {
                let runs = |later: &PodContainer<'_>| {
                    before.states.get(&later.spec.name).is_some_and(|s| *s != State::Waiting)
                };
                if found[at + 1..].iter().any(runs) {
                    return None;
                }
            }
            _ => {}
        }
        let of = gate.until.iter().filter(|until| until.container == container && !is_met(until, before));
        let conditions: Vec<String> = of.filter(|until| is_met(until, after)).map(WaitCondition::to_string).collect();
        if conditions.is_empty() {
            return None;
        }
        let left = gate.until.iter().filter(|until| !is_met(until, after)).map(WaitCondition::to_string);
        let still_waits_for: Vec<String> = left.chain(gate.checks.iter().cloned()).collect();
        let next = found.get(at + 1).filter(|_| gate.mode == Mode::PostStart && still_waits_for.is_empty());
        Some(GateEffect {
            gate_of: name.clone(),
            mode: gate.mode,
            conditions,
            still_waits_for,
            then_starts: next.map(|next| next.spec.name.clone()),
        })
    };
    (0..found.len()).filter_map(waits).collect()
}

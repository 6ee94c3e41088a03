//! Resolves waits for init containers and native sidecars. Kubernetes enforces most of these waits. Podgate enforces
//! waits for the readinessProbe of a native sidecar, and waits of containers that restart with such a sidecar.

use super::types::InitPlan;
use crate::core::until::{WaitCondition, WantedState};
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::declare::{Declaration, Edge, StopOrder, annotation_place, keys};
use crate::order::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Removes from `declared` the waits that Kubernetes enforces, with a note for each container. Reports waits that are
/// not possible. Returns the init containers and native sidecars that the declared order names as predecessors, in list
/// order.
pub(super) fn take_enforced_waits(
    spec: &Spec<'_>,
    declared: &mut Declaration,
    findings: &mut Vec<Finding>,
) -> Vec<InitPlan> {
    let mut named: BTreeMap<usize, InitPlan> = BTreeMap::new();
    let mut edges = std::mem::take(&mut declared.edges);
    let mut wrong = BTreeSet::new();
    edges.retain(|edge| {
        let kept = kept_by_kubernetes(spec, edge, declared).map_err(|finding| {
            wrong.insert(edge.waiter.clone());
            findings.push(finding);
        });
        let Some(own) = spec.init_or_native(&edge.until.container) else { return kept == Ok(None) };
        let plan =
            || InitPlan { name: own.name.to_owned(), index: own.index, is_native: own.is_native(), is_probed: false };
        let is_first = !named.contains_key(&own.index);
        named.entry(own.index).or_insert_with(plan).is_probed |= kept == Ok(None);
        // An error about the same word is enough.
        if let (Ok(Some(why)), true) = (&kept, is_first && !wrong.contains(own.name)) {
            let note =
                Finding::note("kept-by-kubernetes", edge.at.clone(), format!("podgate adds nothing here: {why}"));
            findings.push(note.span(edge.span.clone()));
        }
        kept == Ok(None)
    });
    declared.edges = edges;
    resolve_stop_order(spec, declared, findings);
    declared.job_sidecars.retain(|item| {
        let init = spec.init_or_native(&item.until.container);
        findings.extend(init.map(|own| stop_note(own, keys::JOB_SIDECARS).span(item.span.clone())));
        init.is_none()
    });
    named.into_values().collect()
}

/// Returns the reason why Kubernetes enforces the wait `edge`; `None` for a wait that podgate must enforce.
fn kept_by_kubernetes(spec: &Spec<'_>, edge: &Edge, declared: &Declaration) -> Result<Option<String>, Finding> {
    let Edge { waiter, until: WaitCondition { container, want }, at, span, .. } = edge;
    let error = |rule, what, fix| Err(Finding::error(rule, at.clone(), what).fix(fix).span(span.clone()));
    let own = spec.init_or_native(waiter);
    let Some(before) = spec.init_or_native(container) else {
        let Some(own) = own else { return Ok(None) };
        let kind = own.init_kind();
        let what =
            format!("{waiter} is {kind}, which starts before all regular containers and cannot wait for {container}");
        let kind = if want.is_exit() { "an init container" } else { "a native sidecar" };
        return error("init-container", what, format!("make {container} {kind} before {waiter}"));
    };
    if waiter == container {
        // The graph reports this cycle, so report nothing here.
        return Ok(None);
    }
    if own.is_some_and(|own| own.index < before.index) {
        let what = format!("{waiter} cannot wait for {container}, which comes after it in spec.initContainers");
        return error("init-container", what, format!("put {container} before {waiter} in spec.initContainers"));
    }
    if !before.is_native() {
        return Ok(Some(format!("{container} is an init container, which completes before the next container starts")));
    }
    let restarts = own.is_none() && declared.restart_with_dependency.of(waiter);
    let has_readiness = !before.value["readinessProbe"].is_null();
    match want {
        WantedState::Completed | WantedState::Exited => {
            let what = format!("{container} is a native sidecar, which exits only after all regular containers");
            let fix = format!("wait for {container}=Started or {container}=Ready, or remove its restartPolicy: Always");
            error("condition-never-met", what, fix)
        }
        WantedState::Ready if has_readiness && own.is_some() => {
            let what = format!(
                "{waiter} is {}, and Kubernetes may start it before the readinessProbe of {container} passes",
                own.map_or("", ContainerRef::init_kind)
            );
            let fix = format!(
                "give {container} a startupProbe like its readinessProbe and write {container}=Started, or move {waiter} to \
                 spec.containers"
            );
            error("init-container", what, fix)
        }
        // A gate must wait for the readinessProbe, or restart the container when the native sidecar restarts.
        _ if restarts || *want == WantedState::Ready && has_readiness => Ok(None),
        _ => Ok(Some(format!(
            "{container} is a native sidecar, which has started and passed its startupProbe, if any, before the next container starts"
        ))),
    }
}

/// Removes init containers and native sidecars from the stop order. Kubernetes stops native sidecars after all regular
/// containers, in the reverse order of their list.
fn resolve_stop_order(spec: &Spec<'_>, declared: &mut Declaration, findings: &mut Vec<Finding>) {
    let StopOrder::Steps(steps) = &mut declared.stop_order else { return };
    for (number, item) in
        steps.iter().enumerate().flat_map(|(number, step)| step.iter().map(move |item| (number, item)))
    {
        let Some(own) = spec.init_or_native(&item.until.container) else { continue };
        let stops_before = |other: &str| match spec.init_or_native(other) {
            Some(other) => other.is_native() && other.index > own.index,
            None => true,
        };
        let later = steps[number + 1..].iter().flatten().map(|item| item.until.container.as_str());
        let wrong = later.into_iter().find(|other| own.is_native() && stops_before(other));
        let finding = match wrong {
            Some(other) => {
                let what = format!("{} is a native sidecar, which Kubernetes stops after {other}", own.name);
                let fix = format!("put {0} after {other}, or move {0} to spec.containers", own.name);
                Finding::error("init-container", annotation_place(keys::STOP_ORDER), what).fix(fix)
            }
            None => stop_note(own, keys::STOP_ORDER),
        };
        findings.push(finding.span(item.span.clone()));
    }
    steps.iter_mut().for_each(|step| step.retain(|item| spec.init_or_native(&item.until.container).is_none()));
    steps.retain(|step| !step.is_empty());
}

/// Returns the note that Kubernetes itself stops `own`, which the annotation `key` names.
fn stop_note(own: &ContainerRef<'_>, key: &str) -> Finding {
    let why = match own.is_native() {
        true => "is a native sidecar, which Kubernetes stops after all regular containers",
        false => "is an init container, which completes before the regular containers start",
    };
    Finding::note("kept-by-kubernetes", annotation_place(key), format!("podgate adds nothing here: {} {why}", own.name))
}

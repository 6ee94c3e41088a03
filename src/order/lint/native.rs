//! Recommends native sidecars for a chain of helpers that keep running, in front of the main program.
//!
//! Native sidecars cannot start in parallel, or wait for an exit. They cannot hold back a regular container before the
//! last step, or probe more than once a second. After a kubelet restart, the kubelet may treat a failing startupProbe
//! as passed (kubernetes#142305).

use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec, is_foreign, items_of};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::helpers::is_helper;
use crate::order::inject::REWRITTEN_PATH_PREFIX;
use crate::order::plan::{ContainerPlan, Plan, Waiters};
use serde::Serialize;
use serde_json::{Value, json};

/// Container that can become a native sidecar.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeSidecar {
    /// Name of the container.
    pub name: String,
    /// The `startupProbe` of the native sidecar.
    pub startup_probe: Value,
}

pub(super) fn advice(sidecars: &[NativeSidecar]) -> Finding {
    let names: Vec<&str> = sidecars.iter().map(|own| own.name.as_str()).collect();
    let fields =
        |own: &NativeSidecar| format!("{}: restartPolicy: Always, startupProbe: {}", own.name, own.startup_probe);
    let what = "native sidecars can keep this order without podgate";
    let fields: Vec<String> = sidecars.iter().map(fields).collect();
    let fix = format!("move {} to initContainers, with these fields; {}", names.join(", "), fields.join("; "));
    Finding::note("native-would-do", Place::spec("containers"), what).fix(fix)
}

/// If native sidecars can replace the plan, returns them, in order.
pub(super) fn replacement_sidecars(spec: &Spec<'_>, plan: &Plan) -> Option<Vec<NativeSidecar>> {
    let has_checks = |one: &ContainerPlan| one.ready.is_some() || !one.checks().is_empty();
    if plan.containers.iter().any(|one| has_checks(one) || !one.restarts_with().is_empty()) {
        return None;
    }
    let Waiters(waiters) = Waiters::of(&plan.containers);
    let is_ordered = |planned: &&ContainerPlan| !planned.after.is_empty() || waiters.contains_key(&*planned.name);
    let mut chain: Vec<&ContainerPlan> = plan.containers.iter().filter(is_ordered).collect();
    chain.sort_by_key(|planned| planned.after.len());
    // In a chain, each container waits for all containers before it.
    let waits = |(number, planned): (usize, &&ContainerPlan)| {
        planned.after.len() == number && planned.after.iter().all(|need| need.want == WantedState::Ready)
    };
    if !chain.iter().enumerate().all(waits) {
        return None;
    }
    let last = spec.regular(&chain.pop()?.name)?;
    let ports = |own: &ContainerRef<'_>| items_of(own.value, "ports").len();
    let sidecar = |planned: &ContainerPlan| {
        let own = spec.regular(&planned.name).filter(|own| !is_foreign(own.name) && !is_rewritten(own))?;
        // The main program of a Pod belongs in `containers`. It serves more ports than the containers around it.
        if !is_helper(own) || ports(own) > ports(last) {
            return None;
        }
        // In a Pod that runs to completion, only the Job's sidecars keep running.
        let keeps_running = own.restart_policy(spec.value) == "Always" || planned.is_ended_with_job();
        let startup_probe = sidecar_startup_probe(own).filter(|_| keeps_running)?;
        Some(NativeSidecar { name: planned.name.clone(), startup_probe })
    };
    chain.into_iter().map(sidecar).collect()
}

/// Returns true if Istio has rewritten a probe. The probe would then depend on a proxy that may start later.
fn is_rewritten(own: &ContainerRef<'_>) -> bool {
    ["startupProbe", "readinessProbe"].iter().any(|field| {
        let path = own.value.pointer(&format!("/{field}/httpGet/path")).and_then(Value::as_str);
        path.is_some_and(|path| path.starts_with(REWRITTEN_PATH_PREFIX))
    })
}

/// Returns a startupProbe for a native sidecar: the container's own, or the readinessProbe with a period of 1 s.
pub(super) fn sidecar_startup_probe(own: &ContainerRef<'_>) -> Option<Value> {
    let probe = |field: &str| own.value.get(field).filter(|value| value.is_object()).cloned();
    if let Some(startup) = probe("startupProbe") {
        return Some(startup);
    }
    let mut readiness = probe("readinessProbe")?;
    readiness["periodSeconds"] = json!(1);
    readiness["failureThreshold"] = json!(300);
    // The API requires successThreshold 1 in a startupProbe.
    readiness["successThreshold"] = json!(1);
    Some(readiness)
}

//! Whether native sidecars of Kubernetes' own would do: a chain in which all but the last container run on.
//!
//! What they can't: start side by side, wait for an end, hold back a regular container that is not the last step, judge more often
//! than once a second. And a restart of the kubelet may take a startupProbe for passed that never was (kubernetes#142305).

use crate::core::until::WantedState;
use crate::order::declare::spec::{ContainerRef, Spec};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::plan::{ContainerPlan, Plan};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The manifest that would do.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeAdvice {
    /// Containers that would be native sidecars, in their order: what changes in each, as fields to be set.
    pub sidecars: Vec<(String, Value)>,
    /// Those that stay regular containers.
    pub regular: Vec<String>,
}

impl NativeAdvice {
    /// As a note.
    #[must_use]
    pub fn to_finding(&self) -> Finding {
        let names: Vec<&str> = self.sidecars.iter().map(|(name, _)| name.as_str()).collect();
        let what = format!(
            "native sidecars of Kubernetes' own would do here, without podgate: restartPolicy: Always and a startupProbe for {}, under \
             initContainers. Such start one after the other, about a second apart, and a restart of the kubelet may let the next one start \
             too early",
            names.join(", ")
        );
        Finding::note("native-would-do", Place::root().to("spec").to("containers"), what)
    }

    /// What would stand in the manifest, as YAML, for people: only what changes.
    #[must_use]
    pub fn manifest(&self) -> String {
        let mut text = String::from("spec:\n  initContainers:\n");
        for (name, fields) in &self.sidecars {
            text.push_str(&format!("  - name: {name}\n    restartPolicy: Always\n"));
            text.push_str(&format!("    startupProbe: {fields}\n    # … all else of {name}, as it is\n"));
        }
        text.push_str("  containers:\n");
        for name in &self.regular {
            text.push_str(&format!("  - name: {name}\n    # … as it is\n"));
        }
        text
    }
}

/// The advice, if it fits.
pub(super) fn native_advice(spec: &Spec<'_>, plan: &Plan) -> Option<NativeAdvice> {
    let mut waiters: BTreeMap<&str, &ContainerPlan> = BTreeMap::new();
    for planned in &plan.containers {
        for need in &planned.after {
            waiters.entry(&need.container).or_insert(planned);
        }
    }
    let is_ordered =
        |planned: &&ContainerPlan| !planned.after.is_empty() || waiters.contains_key(planned.name.as_str());
    let ordered = plan.containers.iter().filter(is_ordered).count();
    // One after the other, each for the one before alone.
    let mut chain = vec![plan.containers.iter().filter(is_ordered).find(|planned| planned.after.is_empty())?];
    while let Some(next) = waiters.get(chain[chain.len() - 1].name.as_str()) {
        if next.after.len() != 1 || next.after[0].want != WantedState::Ready || chain.len() > ordered {
            return None;
        }
        chain.push(next);
    }
    let last = chain.pop()?;
    if chain.is_empty() || chain.len() + 1 != ordered {
        return None;
    }
    let sidecars: Option<Vec<(String, Value)>> = chain
        .iter()
        .map(|planned| {
            let own = spec.get(&planned.name)?;
            // In a Pod that runs to its end, only what is declared to run on.
            let runs_on = own.restart_policy(spec.value) == "Always" || !planned.stop_after.is_empty();
            Some((planned.name.clone(), sidecar_startup_probe(own).filter(|_| runs_on)?))
        })
        .collect();
    let names: BTreeSet<&str> = chain.iter().chain([&last]).map(|planned| planned.name.as_str()).collect();
    let others = spec.containers.iter().map(|own| own.name).filter(|name| !names.contains(name));
    let regular = others.chain([last.name.as_str()]).map(str::to_owned).collect();
    Some(NativeAdvice { sidecars: sidecars?, regular })
}

/// The startup probe that a native sidecar would have: its own, or its readiness probe asked each second.
fn sidecar_startup_probe(own: &ContainerRef<'_>) -> Option<Value> {
    let there = |field: &str| own.value.get(field).filter(|value| value.is_object()).cloned();
    if let Some(startup) = there("startupProbe") {
        return Some(startup);
    }
    let mut readiness = there("readinessProbe")?;
    readiness["periodSeconds"] = json!(1);
    readiness["failureThreshold"] = json!(300);
    // The API takes no other than 1 in a startup probe.
    readiness["successThreshold"] = json!(1);
    Some(readiness)
}

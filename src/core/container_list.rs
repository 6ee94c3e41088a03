//! The list of all containers (the value of `--containers`), and a check that the containers can start in the declared
//! order.
//!
//! The kubelet starts a pod's containers in list order and starts nothing else while a postStart hook runs. So a
//! container whose gate waits must not precede a container with a hook.

use crate::core::argv::ParseError;
use crate::core::container::{Container, Mode};
use crate::core::graph::{describe_wait_cycle, find_cycle};
use crate::core::until::WaitCondition;
use crate::core::{names, quit};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of regular containers in a Pod. The limit prevents a long list from overloading the webhook. Real
/// Pods have far fewer containers.
pub const CONTAINERS_MAX: usize = 200;

/// Error: the containers cannot start in the declared order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct OrderError {
    /// The container to change: the one with the hook, or one of a cycle.
    pub container: String,
    why: String,
}

/// Checks that `containers`, given in list order, can start in the declared order.
pub fn check_can_start(containers: &[Container]) -> Result<(), OrderError> {
    let broken = |container: &str, why| Err(OrderError { container: container.to_owned(), why });
    let waits = |c: &Container| matches!(c.mode, Mode::Entrypoint | Mode::Hold) && !c.until.is_empty();
    let find_hook = |list: &[Container]| list.iter().find(|c| c.mode == Mode::PostStart).map(|c| c.name.clone());
    if let Some(Container { name: held, .. }) = containers.iter().find(|c| c.mode == Mode::Hold)
        && let Some(hook) = find_hook(containers)
    {
        let why = format!(
            "container {held} is in hold mode and {hook} has a post-start hook. The kubelet creates no held container \
             while a hook runs; use the same mode for {held} and {hook}"
        );
        return broken(&hook, why);
    }
    if let Some(at) = containers.iter().position(waits)
        && let Some(hook) = find_hook(&containers[at..])
    {
        let gate = &containers[at].name;
        let why = format!(
            "container {gate} has an entrypoint gate but precedes {hook}, which has a post-start hook. The kubelet \
             starts nothing while a hook runs; put {hook} before {gate}, or give {hook} an entrypoint gate too"
        );
        return broken(&hook, why);
    }
    // A hook may wait for its own container, so such a condition is not an edge of the graph.
    let edges: BTreeMap<&str, Vec<&str>> = containers
        .iter()
        .map(|c| (c.name.as_str(), c.until.iter().map(|u| u.container.as_str()).filter(|to| *to != c.name).collect()))
        .collect();
    let own = containers.iter().find(|c| waits(c) && c.until.iter().any(|u| u.container == c.name));
    let Some(cycle) = own.map(|own| vec![own.name.as_str()]).or_else(|| find_cycle(&edges)) else { return Ok(()) };
    broken(cycle[0], format!("containers wait for each other: {}", describe_wait_cycle(&cycle)))
}

/// Parses the value of `--containers`.
pub fn parse_list(json: &str) -> Result<Vec<Container>, ParseError> {
    let list: Vec<Container> = serde_json::from_str(json).map_err(|error| {
        format!("not a JSON list of containers ({error}); write [{{\"name\":\"db\",\"mode\":\"post-start\"}}, …]")
    })?;
    if list.len() > CONTAINERS_MAX {
        return Err(format!("{} containers, but podgate supports at most {CONTAINERS_MAX}", list.len()).into());
    }
    let mut names = BTreeSet::new();
    for Container { name, quit, .. } in &list {
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is not a container name").into());
        }
        if !names.insert(name.as_str()) {
            return Err(format!("container {name} is listed twice").into());
        }
        if let Some(Err(why)) = quit.as_deref().map(quit::parse) {
            return Err(format!("quit of {name}: {why}").into());
        }
    }
    for Container { name, until, .. } in &list {
        let unknown = until.iter().find(|until| !names.contains(until.container.as_str()));
        if let Some(WaitCondition { container, .. }) = unknown {
            return Err(format!("container {name} waits for {container}, which is not in the list").into());
        }
    }
    check_can_start(&list).map_err(|broken| broken.to_string())?;
    Ok(list)
}

/// Merges the containers in `--containers` with the containers in the Pod's spec. `--containers` takes precedence,
/// because it contains the values from before the injection.
pub fn merge_containers(declared: &[Container], spec: &[Container]) -> Vec<Container> {
    let merged = |spec: &Container| {
        let Some(declaration) = declared.iter().find(|declaration| declaration.name == spec.name) else {
            return spec.clone();
        };
        let has_probes = declaration.ready_check.is_some() || declaration.probes().next().is_some();
        let probes = if has_probes { declaration } else { spec };
        let policy = if declaration.restart_policy.is_some() { declaration } else { spec };
        Container {
            ports: if declaration.ports.is_empty() { spec.ports.clone() } else { declaration.ports.clone() },
            startup_probe: probes.startup_probe.clone(),
            readiness_probe: probes.readiness_probe.clone(),
            ready_check: declaration.ready_check.clone(),
            restart_policy: policy.restart_policy.clone(),
            restart_policy_rules: policy.restart_policy_rules.clone(),
            mode: if declaration.mode == Mode::None { spec.mode } else { declaration.mode },
            pre_stop: declaration.pre_stop || spec.pre_stop,
            reports_start: declaration.reports_start || spec.reports_start,
            until: if declaration.until.is_empty() { spec.until.clone() } else { declaration.until.clone() },
            ..declaration.clone()
        }
    };
    spec.iter().map(merged).collect()
}

//! The list of all containers (the value of `--containers`), and a check that the containers can start in the declared
//! order.
//!
//! The kubelet starts a pod's containers in list order and starts nothing else while a postStart hook runs. So a
//! container whose gate waits must not precede a container with a hook.

use crate::core::container::{Container, Mode};
use crate::core::graph::find_cycle;
use crate::core::names;
use crate::core::until::WaitCondition;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of regular containers in a Pod. The limit prevents a long list from overloading the webhook. Real
/// Pods have far fewer containers.
pub const CONTAINERS_MAX: usize = 200;

/// Error: the containers can't start in the declared order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A container with a gate precedes a container with a hook.
    #[error(
        "container {gate} has an entrypoint gate but precedes {hook}, which has a post-start hook; the kubelet starts \
         nothing while a hook runs; put {hook} before {gate}, or give {hook} an entrypoint gate too"
    )]
    GateBeforeHook {
        /// The container with the gate.
        gate: String,
        /// The container with the hook.
        hook: String,
    },
    /// One container is held by the kubelet, and another has a hook.
    #[error(
        "container {held} is in hold mode and {hook} has a post-start hook; the kubelet releases no held container \
         while a hook runs; use one of the two modes for both"
    )]
    HoldAndHook {
        /// The container in hold mode.
        held: String,
        /// The container with the hook.
        hook: String,
    },
    /// Containers that wait for each other in a cycle.
    #[error("containers wait for each other: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

/// Checks that `containers`, in list order, can start.
pub fn check_order(containers: &[Container]) -> Result<(), OrderError> {
    let waits = |c: &Container| matches!(c.mode, Mode::Entrypoint | Mode::Hold) && !c.until.is_empty();
    if let Some(held) = containers.iter().find(|c| c.mode == Mode::Hold)
        && let Some(hook) = containers.iter().find(|c| c.mode == Mode::PostStart)
    {
        return Err(OrderError::HoldAndHook { held: held.name.clone(), hook: hook.name.clone() });
    }
    if let Some(gate) = containers.iter().position(waits)
        && let Some(hook) = containers[gate..].iter().find(|c| c.mode == Mode::PostStart)
    {
        let (gate, hook) = (containers[gate].name.clone(), hook.name.clone());
        return Err(OrderError::GateBeforeHook { gate, hook });
    }
    // A hook may wait for its own container, so such a condition is not an edge of the graph.
    let edges: BTreeMap<&str, Vec<&str>> = containers
        .iter()
        .map(|c| (c.name.as_str(), c.until.iter().map(|u| u.container.as_str()).filter(|to| *to != c.name).collect()))
        .collect();
    let own = containers.iter().find(|c| waits(c) && c.until.iter().any(|u| u.container == c.name));
    if let Some(own) = own {
        return Err(OrderError::Cycle(vec![own.name.clone(), own.name.clone()]));
    }
    let Some(cycle) = find_cycle(&edges) else { return Ok(()) };
    Err(OrderError::Cycle(cycle.iter().chain(&cycle[..1]).map(|name| (*name).to_owned()).collect()))
}

/// Parses the value of `--containers`.
pub fn parse_list(json: &str) -> Result<Vec<Container>, String> {
    let list: Vec<Container> = serde_json::from_str(json).map_err(|error| {
        format!("not a JSON list of containers ({error}); write [{{\"name\":\"db\",\"mode\":\"post-start\"}}, …]")
    })?;
    if list.len() > CONTAINERS_MAX {
        return Err(format!("{} containers, but podgate supports at most {CONTAINERS_MAX}", list.len()));
    }
    let mut names = BTreeSet::new();
    for Container { name, .. } in &list {
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is not a container name"));
        }
        if !names.insert(name.as_str()) {
            return Err(format!("container {name} is listed twice"));
        }
    }
    for Container { name, until, .. } in &list {
        if let Some(WaitCondition { container, .. }) =
            until.iter().find(|until| !names.contains(until.container.as_str()))
        {
            return Err(format!("container {name} waits for {container}, which is not in the list"));
        }
    }
    check_order(&list).map_err(|broken| broken.to_string())?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(name: &str, mode: Mode, until: &[&str]) -> Container {
        let until = until.iter().map(|text| text.parse().unwrap()).collect();
        Container { name: name.to_owned(), mode, until, ..Container::default() }
    }

    #[test]
    fn hooks_may_precede_gates() {
        let list = [
            container("db", Mode::PostStart, &["db"]),
            container("log", Mode::None, &[]),
            container("api", Mode::Entrypoint, &["db"]),
            container("web", Mode::Entrypoint, &["api", "db"]),
        ];
        assert_eq!(check_order(&list), Ok(()));
        let parent = [container("migrate", Mode::Entrypoint, &[]), container("db", Mode::PostStart, &[])];
        assert_eq!(check_order(&parent), Ok(()), "a gate without conditions is open");
    }

    #[test]
    fn cycle_is_reported() {
        let list = [
            container("x", Mode::Entrypoint, &["a"]),
            container("a", Mode::Entrypoint, &["b"]),
            container("b", Mode::Entrypoint, &["c"]),
            container("c", Mode::Entrypoint, &["a"]),
        ];
        assert_eq!(check_order(&list).unwrap_err().to_string(), "containers wait for each other: a -> b -> c -> a");
        assert!(check_order(&[container("a", Mode::Entrypoint, &["a"])]).is_err());
    }

    #[test]
    fn dense_graph_visits_each_container_once() {
        let mut list = vec![container("c0", Mode::Entrypoint, &[])];
        for n in 1..60 {
            let before: Vec<String> = (0..n).map(|m| format!("c{m}")).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            list.push(container(&format!("c{n}"), Mode::Entrypoint, &before));
        }
        assert_eq!(check_order(&list), Ok(()));
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for (json, expected) in [
            ("", "not a JSON list"),
            ("{}", "not a JSON list"),
            (r#"[{"name":"A"}]"#, "\"A\" is not a container name"),
            (
                &format!("[{}]", vec![r#"{"name":"a"}"#; 201].join(",")),
                "201 containers, but podgate supports at most 200",
            ),
            (r#"[{"name":"a"},{"name":"a"}]"#, "listed twice"),
            (r#"[{"name":"a","until":["b"]}]"#, "waits for b, which is not in the list"),
            (r#"[{"name":"a","until":["b=x"]}]"#, "not a state to wait for"),
            (r#"[{"name":"a","mode":"entrypoint","until":["b"]},{"name":"b","mode":"post-start"}]"#, "put b before a"),
            (r#"[{"name":"a","readinessProbe":{}}]"#, "not a JSON list"),
        ] {
            let error = parse_list(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}

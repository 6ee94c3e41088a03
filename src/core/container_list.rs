//! The list of all containers, as `--containers` gives it, and whether they can start in their order at all.
//!
//! The kubelet starts a pod's containers one after another, in the order of the list, and a postStart hook holds back all that
//! comes after it. So no gate may wait while a later hook runs: everything before a container that a hook holds back is held back
//! by hooks too.

use crate::core::container::{Container, Mode};
use crate::core::names;
use crate::core::until::WaitCondition;
use std::collections::{BTreeMap, BTreeSet};

/// The order can't be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A gate would wait under the freeze of a hook that comes after it.
    #[error(
        "container {gate} waits in an entrypoint gate, but {hook} after it has a post-start hook, and while that runs the \
         kubelet does nothing for this pod; put {hook} before {gate}, or give {hook} an entrypoint gate too"
    )]
    GateBeforeHook {
        /// The container with the gate.
        gate: String,
        /// The container with the hook.
        hook: String,
    },
    /// Containers that wait for each other, each for the next and the last for the first.
    #[error("containers wait for each other: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

/// Checks `containers`, in the order of the pod's list.
///
/// # Errors
/// [`OrderError`] says which containers can't start, and what to do.
pub fn check_order(containers: &[Container]) -> Result<(), OrderError> {
    let waits = |c: &Container| c.mode == Mode::Entrypoint && !c.until.is_empty();
    if let Some(gate) = containers.iter().position(waits)
        && let Some(hook) = containers[gate..].iter().find(|c| c.mode == Mode::PostStart)
    {
        let (gate, hook) = (containers[gate].name.clone(), hook.name.clone());
        return Err(OrderError::GateBeforeHook { gate, hook });
    }
    // A hook waits for its own container: that is no edge.
    let edges: BTreeMap<&str, Vec<&str>> = containers
        .iter()
        .map(|c| (c.name.as_str(), c.until.iter().map(|u| u.container.as_str()).filter(|to| *to != c.name).collect()))
        .collect();
    let own = containers.iter().find(|c| waits(c) && c.until.iter().any(|u| u.container == c.name));
    if let Some(own) = own {
        return Err(OrderError::Cycle(vec![own.name.clone(), own.name.clone()]));
    }
    let mut cleared = Vec::new();
    for name in edges.keys() {
        if let Some(cycle) = find_cycle(name, &edges, &mut Vec::new(), &mut cleared) {
            return Err(OrderError::Cycle(cycle));
        }
    }
    Ok(())
}

/// Walks from `at` along the edges; the cycle that it comes upon, its first container named again at its end.
fn find_cycle<'a>(
    at: &'a str,
    edges: &BTreeMap<&'a str, Vec<&'a str>>,
    path: &mut Vec<&'a str>,
    cleared: &mut Vec<&'a str>,
) -> Option<Vec<String>> {
    if cleared.contains(&at) {
        return None;
    }
    if let Some(from) = path.iter().position(|seen| *seen == at) {
        return Some(path[from..].iter().chain([&at]).map(|name| (*name).to_owned()).collect());
    }
    path.push(at);
    let found = edges.get(at).into_iter().flatten().find_map(|next| find_cycle(next, edges, path, cleared));
    path.pop();
    cleared.push(at);
    found
}

/// Reads the value of `--containers`.
///
/// # Errors
/// The text says what is wrong with which container.
pub fn parse_list(json: &str) -> Result<Vec<Container>, String> {
    let list: Vec<Container> = serde_json::from_str(json).map_err(|error| {
        format!("no JSON list of containers ({error}); write [{{\"name\":\"db\",\"mode\":\"post-start\"}}, …]")
    })?;
    let mut names = BTreeSet::new();
    for Container { name, .. } in &list {
        if !names::is_container_name(name) {
            return Err(format!("{name:?} is no container name"));
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
    fn hooks_first_and_gates_after_them_are_fine() {
        let list = [
            container("db", Mode::PostStart, &["db"]),
            container("log", Mode::None, &[]),
            container("api", Mode::Entrypoint, &["db"]),
            container("web", Mode::Entrypoint, &["api", "db"]),
        ];
        assert_eq!(check_order(&list), Ok(()));
        let parent = [container("migrate", Mode::Entrypoint, &[]), container("db", Mode::PostStart, &[])];
        assert_eq!(check_order(&parent), Ok(()), "a gate that waits for nobody is open");
    }

    #[test]
    fn a_gate_before_a_hook_is_refused_with_both_names() {
        let list = [container("api", Mode::Entrypoint, &["db"]), container("db", Mode::PostStart, &[])];
        let broken = check_order(&list).unwrap_err();
        assert_eq!(broken, OrderError::GateBeforeHook { gate: "api".to_owned(), hook: "db".to_owned() });
        assert!(broken.to_string().contains("put db before api"));
    }

    #[test]
    fn a_cycle_is_shown() {
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
    fn many_ways_to_one_container_are_walked_once() {
        let mut list = vec![container("c0", Mode::Entrypoint, &[])];
        for n in 1..60 {
            let before: Vec<String> = (0..n).map(|m| format!("c{m}")).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            list.push(container(&format!("c{n}"), Mode::Entrypoint, &before));
        }
        assert_eq!(check_order(&list), Ok(()));
    }

    #[test]
    fn reads_the_pod_apis_fields_with_its_defaults() {
        let list = parse_list(
            r#"[{"name":"db","mode":"post-start","until":["db=Ready"],"image":"x","ports":[{"name":"pg","containerPort":5432,"protocol":"TCP"}],
                "readinessProbe":{"tcpSocket":{"port":"pg"},"periodSeconds":5}},
               {"name":"api","readinessProbe":{"httpGet":{"path":"/r","port":80,"scheme":"HTTPS"}}},
               {"name":"web","ports":null,"startupProbe":{"exec":{"command":["true"]}},"readinessProbe":{"grpc":{"port":9,"service":null}}}]"#,
        )
        .unwrap();
        let probe = list[0].readiness_probe.as_ref().unwrap();
        assert_eq!((probe.period_seconds, probe.timeout_seconds, probe.failure_threshold), (5, 1, 3));
        assert_eq!(list[0].probe_port(probe), Some(5432));
        assert_eq!(list[0].mode, Mode::PostStart);
        assert_eq!(list[1].probe_port(list[1].readiness_probe.as_ref().unwrap()), Some(80));
        assert!(list[2].startup_probe.as_ref().unwrap().is_exec());
        let again = parse_list(&serde_json::to_string(&list).unwrap()).unwrap();
        assert_eq!(again, list);
    }

    #[test]
    fn says_what_is_wrong_with_a_list() {
        for (json, says) in [
            ("", "no JSON list"),
            ("{}", "no JSON list"),
            (r#"[{"name":"A"}]"#, "\"A\" is no container name"),
            (r#"[{"name":"a"},{"name":"a"}]"#, "listed twice"),
            (r#"[{"name":"a","until":["b"]}]"#, "waits for b, which is not in the list"),
            (r#"[{"name":"a","until":["b=x"]}]"#, "no state to wait for"),
            (r#"[{"name":"a","mode":"entrypoint","until":["b"]},{"name":"b","mode":"post-start"}]"#, "put b before a"),
            (r#"[{"name":"a","readinessProbe":{}}]"#, "no JSON list"),
        ] {
            let error = parse_list(json).unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}

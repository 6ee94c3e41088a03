//! Extracts the facts that the sidecar needs from the Pod in the API. No I/O.

use podgate::core::annotations::Annotations;
use podgate::core::container::Container;
use podgate::core::names;
use podgate::core::pod::{self, ContainerStatus, PodSpec, PodStatus};
use podgate::core::restart::{RestartDecision, RestartRule, restart_decision};
use podgate::core::snapshot::{self, is_snapshot_key};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Pod object from the API server, limited to the fields that podgate reads.
pub(crate) type Pod = kube::core::Object<PodSpec, PodStatus>;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PodFacts {
    pub(crate) uid: String,
    /// Version of the Pod, which grows with every change. Kubernetes documents the version as opaque, but it is a
    /// number in practice.
    pub(crate) resource_version: Option<u64>,
    pub(crate) is_deleting: bool,
    /// Podgate's annotations, and the user's overrides.
    pub(crate) annotations: Annotations,
    /// Native sidecars, then regular containers, each in spec order, without podgate's sidecar.
    pub(crate) containers: Vec<Container>,
    pub(crate) kubelet_statuses: BTreeMap<String, KubeletStatus>,
    /// Start time of the sidecar's container according to the kubelet, if the container is running.
    pub(crate) own_started_at: Option<SystemTime>,
    /// Restart count of the sidecar's container, from the kubelet.
    pub(crate) own_restarts: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct KubeletStatus {
    /// Container id of the running incarnation, if any.
    pub(crate) running_id: Option<String>,
    /// Start time of the running incarnation, if any.
    pub(crate) running_since: Option<SystemTime>,
    /// Container id and exit code of the incarnation that has ended, if any.
    pub(crate) termination: Option<(String, i32)>,
    /// Time when the ended incarnation started, or failed to start.
    pub(crate) ended_run_started_at: Option<SystemTime>,
    /// True if the startup probe has passed or the container has no startup probe.
    pub(crate) has_started: bool,
    pub(crate) is_ready: bool,
    /// Reason why the container will not run soon: an error that a user must fix, a long back-off, or a final end.
    pub(crate) stuck_reason: Option<String>,
}

/// Values of `state.waiting.reason` that last until a user fixes the cause, or for a long back-off.
const STUCK_REASONS: [&str; 4] = ["CrashLoopBackOff", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];

/// Values of `state.waiting.reason` between a termination and the next start.
const BACKOFF_REASONS: [&str; 2] = ["CrashLoopBackOff", "PostStartHookError"];

fn parse_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

/// Extracts the facts from `pod`. `own` is the name of the sidecar's own container.
pub(crate) fn extract_facts(pod: &Pod, own: &str) -> PodFacts {
    let spec = &pod.spec;
    let status = pod.status.clone().unwrap_or_default();
    let natives = spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let others: Vec<&pod::Container> = natives.chain(&spec.containers).filter(|c| c.name != own).collect();
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses);
    let statuses: BTreeMap<&str, &ContainerStatus> = statuses.map(|status| (status.name.as_str(), status)).collect();

    let policy = |container: &pod::Container| {
        container.restart_policy.clone().or_else(|| spec.restart_policy.clone()).unwrap_or_else(|| "Always".to_owned())
    };
    let named_status = |container: &&pod::Container| {
        let status = statuses.get(container.name.as_str())?;
        Some((container.name.clone(), kubelet_status(status, &policy(container), &container.restart_policy_rules)))
    };
    let kubelet_statuses: BTreeMap<String, KubeletStatus> = others.iter().filter_map(named_status).collect();
    let own_state = statuses.get(own).and_then(|status| status.state.running.as_ref());
    let is_wanted = |key: &str| is_snapshot_key(key) || key.starts_with(names::OVERRIDE_KEY_PREFIX);
    let annotations = pod.metadata.annotations.iter().flatten().filter(|(key, _)| is_wanted(key));
    PodFacts {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        resource_version: pod.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()),
        is_deleting: pod.metadata.deletion_timestamp.is_some(),
        annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
        containers: others.iter().map(|c| Container { restart_policy: Some(policy(c)), ..c.declared() }).collect(),
        kubelet_statuses,
        own_restarts: statuses.get(own).map_or(0, |status| status.restart_count),
        own_started_at: own_state.and_then(|running| running.started_at.as_deref()).and_then(parse_time),
    }
}

fn kubelet_status(status: &ContainerStatus, policy: &str, rules: &[RestartRule]) -> KubeletStatus {
    let state = &status.state;
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
    // During a back-off, lastState holds the termination. Otherwise lastState belongs to an earlier incarnation.
    let in_back_off = waiting.is_some_and(|reason| BACKOFF_REASONS.contains(&reason));
    let terminated = state.terminated.as_ref().or(status.last_state.terminated.as_ref().filter(|_| in_back_off));
    let id = |id: &Option<String>| id.clone().or_else(|| status.container_id.clone()).unwrap_or_default();
    let decision = state.terminated.as_ref().map(|end| restart_decision(Some(policy), rules, Some(end.exit_code)));
    let stuck = if decision == Some(RestartDecision::Final) {
        Some(snapshot::REASON_ENDED_FOR_GOOD)
    } else {
        waiting.filter(|reason| STUCK_REASONS.contains(reason))
    };
    KubeletStatus {
        running_id: state.running.as_ref().map(|_| status.container_id.clone().unwrap_or_default()),
        running_since: state.running.as_ref().and_then(|running| parse_time(running.started_at.as_deref()?)),
        termination: terminated.map(|end| (id(&end.container_id), end.exit_code)),
        ended_run_started_at: terminated.and_then(|end| {
            let started = end.started_at.as_deref().and_then(parse_time).filter(|at| *at > SystemTime::UNIX_EPOCH);
            // If a container could not be started, the kubelet sets startedAt to 1970, so use finishedAt.
            started.or_else(|| parse_time(end.finished_at.as_deref()?))
        }),
        has_started: status.started == Some(true),
        is_ready: status.ready,
        stuck_reason: stuck.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podgate::core::container::Mode;
    use podgate::core::until::WaitCondition;
    use serde_json::{Value, json};

    fn facts(value: Value) -> PodFacts {
        extract_facts(&serde_json::from_value(value).unwrap(), "podgate")
    }

    #[test]
    fn other_containers_are_read_with_their_mode() {
        let facts = facts(json!({
            "metadata": {"uid": "u", "resourceVersion": "17", "annotations": {
                "status.podgate.io/db": "Ready", "override.podgate.io/db": "Ready@x", "foreign": "1"}},
            "spec": {
                "initContainers": [
                    {"name": "podgate", "restartPolicy": "Always"},
                    {"name": "once"},
                    {"name": "mesh", "restartPolicy": "Always", "readinessProbe": {"newKind": {}}}],
                "containers": [
                    {"name": "db", "ports": [{"containerPort": 1}], "lifecycle": {"postStart": {"exec":
                        {"command": ["/podgate/bin/podgate", "post-start", "--container", "db"]}}}},
                    {"name": "api", "command": ["/podgate/bin/podgate", "entrypoint"],
                     "args": ["--until", "db,web=Started", "--until=mesh", "--", "x", "--until", "y"],
                     "lifecycle": {"postStart": {"sleep": {"seconds": 1}},
                                   "preStop": {"exec": {"command": ["/podgate/bin/podgate", "pre-stop"]}}}},
                    {"name": "web", "lifecycle": null, "ports": null}]}
        }));
        let modes: Vec<(&str, Mode)> = facts.containers.iter().map(|c| (c.name.as_str(), c.mode)).collect();
        assert_eq!(
            modes,
            [("mesh", Mode::None), ("db", Mode::PostStart), ("api", Mode::Entrypoint), ("web", Mode::None)]
        );
        let until: Vec<String> = facts.containers[2].until.iter().map(WaitCondition::to_string).collect();
        assert_eq!(until, ["db=Ready", "web=Started", "mesh=Ready"]);
        assert!(facts.containers[2].pre_stop && !facts.containers[1].pre_stop);
        assert_eq!((facts.resource_version, facts.is_deleting), (Some(17), false));
        assert_eq!(facts.annotations.len(), 2);
    }

    #[test]
    fn final_end_depends_on_the_policies_of_pod_and_container() {
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        for (pod_policy, own_policy, rules, code, for_good) in [
            ("Always", Value::Null, json!([]), 0, false),
            ("Always", Value::Null, json!([]), 1, false),
            ("OnFailure", Value::Null, json!([]), 0, true),
            ("OnFailure", Value::Null, json!([]), 1, false),
            ("Never", Value::Null, json!([]), 1, true),
            ("Always", json!("Never"), json!([]), 42, true),
            ("Always", json!("Never"), rules, 42, false),
        ] {
            let mut facts = facts(json!({
                "metadata": {}, "spec": {"restartPolicy": pod_policy, "containers": [
                    {"name": "db", "restartPolicy": own_policy, "restartPolicyRules": rules}]},
                "status": {"containerStatuses": [
                    {"name": "db", "state": {"terminated": {"exitCode": code, "containerID": "c1"}}}]}}));
            let status = facts.kubelet_statuses.remove("db").unwrap();
            assert_eq!(status.termination, Some(("c1".to_owned(), code)));
            assert_eq!(status.stuck_reason.is_some(), for_good, "{pod_policy} {own_policy} {code}");
        }
    }

    #[test]
    fn last_state_holds_the_termination_during_back_off() {
        let running = json!({"running": {"startedAt": "2026-11-21T14:00:00Z"}});
        for (state, running_id, termination, stuck_reason) in [
            (json!({"waiting": {"reason": "CrashLoopBackOff"}}), None, Some(("c1", 3)), Some("CrashLoopBackOff")),
            (running, Some("c2"), None, None),
        ] {
            let facts = facts(json!({
                "metadata": {}, "spec": {"containers": [{"name": "db"}]},
                "status": {"containerStatuses": [
                    {"name": "db", "containerID": "c2", "ready": true, "started": true, "state": state,
                     "lastState": {"terminated": {"exitCode": 3, "containerID": "c1"}}}]}}));
            let status = &facts.kubelet_statuses["db"];
            assert_eq!((status.running_id.as_deref(), status.stuck_reason.as_deref()), (running_id, stuck_reason));
            assert_eq!(status.termination, termination.map(|(id, code)| (id.to_owned(), code)));
            assert!(status.is_ready);
        }
    }
}

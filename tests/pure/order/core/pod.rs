//! Tests of `podgate::core::pod`.

use podgate::core::container::{Handler, PortRef};
use podgate::core::pod::*;
use serde_json::{Value, json};

fn container(value: Value) -> Container {
    serde_json::from_value(value).unwrap()
}

#[test]
fn unknown_and_null_fields_count_as_absent() {
    let spec: PodSpec = serde_json::from_value(json!({
        "containers": [{"name": "db", "env": null, "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}},
                       {"name": "api", "command": 7, "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}],
        "initContainers": null}))
    .unwrap();
    assert_eq!(spec.containers[0].lifecycle.post_start.exec.command, ["x"]);
    assert!(spec.containers[1].lifecycle.post_start.exec.command.is_empty() && spec.containers[1].command.is_empty());
    let status: PodStatus = serde_json::from_value(
        json!({"containerStatuses": [{"name": "db", "restartCount": "many", "state": {"running": {}}}]}),
    )
    .unwrap();
    assert!(status.container_statuses[0].state.running.is_some());
}

#[test]
fn gate_is_found_in_command_args_and_hook() {
    let line = ["/podgate/bin/podgate", "entrypoint", "--until", "db", "--", "sh", "--until", "x"];
    for value in [
        json!({"name": "api", "command": line}),
        json!({"name": "api", "command": line[..1], "args": line[1..]}),
        json!({"name": "api", "lifecycle": {"postStart": {"exec": {"command": ["podgate", "post-start", "--until=db"]}}}}),
    ] {
        let gate = container(value.clone()).gate_or_hook().unwrap();
        assert_eq!((gate.until, gate.checks.len()), (vec!["db".parse().unwrap()], 0), "{value}");
    }
    for value in [
        json!({"name": "db"}),
        json!({"name": "db", "command": ["podgate", "post-start"]}),
        json!({"name": "db", "lifecycle": {"postStart": {"exec": {"command": ["podgate", "entrypoint"]}}}}),
    ] {
        assert_eq!(container(value.clone()).gate_or_hook(), None, "{value}");
    }
}

#[test]
fn sidecar_is_recognized_by_command_hook_or_environment() {
    for value in [
        json!({"name": "x", "command": ["/bin/podgate-controller"]}),
        json!({"name": "x", "lifecycle": {"postStart": {"exec": {"command": ["/bin/podgate-controller", "ready"]}}}}),
        json!({"name": "x", "env": [{"name": "PODGATE_CONTAINERS", "value": "[]"}]}),
    ] {
        assert!(container(value.clone()).is_sidecar(), "{value}");
    }
    assert!(!container(json!({"name": "podgate", "command": ["/podgate/bin/podgate"]})).is_sidecar());
}

#[test]
fn startup_probe_of_podgate_is_reduced_to_its_check() {
    let originally = |command: &[&str]| {
        let probe = json!({"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 300});
        container(json!({"name": "x", "startupProbe": probe})).declared().startup_probe
    };
    let agent = "/podgate/bin/podgate";
    assert_eq!(originally(&[agent, "opened"]), None);
    let http = originally(&[agent, "opened", "--check", "http://127.0.0.1:8080/ready"]).unwrap();
    assert!(matches!(&http.handler, Handler::HttpGet(get) if get.port == PortRef::Number(8080)));
    assert_eq!((http.period_seconds, http.failure_threshold), (1, 300));
    assert!(originally(&[agent, "opened", "--check=exec:[\"pg_isready\"]"]).unwrap().is_exec());
    assert!(originally(&["opened"]).unwrap().is_exec());
}

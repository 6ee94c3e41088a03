//! Tests of the forecast of each mode. docs/guarantees.md explains the facts in the forecasts.

use super::{assert_check, check, file};
use serde_json::json;

/// Returns the lines of the forecast that describe waits. The Pod has three containers and the given annotations.
fn waiting(annotations: &str, command: &str) -> String {
    let (directory, _) = file(&format!(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    podgate.io/order: \"db, api, web\"
{annotations}spec:
  containers:
  - {{name: db, command: [db], readinessProbe: {{tcpSocket: {{port: 5432}}}}}}
  - {{name: api, {command}readinessProbe: {{tcpSocket: {{port: 8080}}}}}}
  - {{name: web, command: [web]}}
"
    ));
    let (code, out, _) = check(&directory, &["pod.yaml"]);
    assert_eq!(code, 0, "{out}");
    let heads = ["waits", "timeout", "caution"];
    let is_about = |line: &&str| heads.iter().any(|head| line.starts_with(&format!("  {head} ")));
    out.lines().filter(is_about).map(|line| format!("{line}\n")).collect()
}

const GATE_FAILS: &str = "  timeout  gate: exits with 75; the kubelet restarts the container by its restartPolicy, and the gate waits again\n";
const HOOK_FAILS: &str =
    "  timeout  hook: fails; the kubelet kills its container and starts the next one at once: the order is not kept\n";
const CAUTION: &str = "  caution  hook: the order is also not kept if a container crashes, or if the kubelet or the container runtime restarts\n";

#[test]
fn forecast_shows_each_check_and_where_it_runs() {
    let (directory, _) = file(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: build
  annotations:
    podgate.io/order: \"dind & proxy, runner\"
    ready.podgate.io/dind: \"unix:///run/docker.sock\"
    ready.podgate.io/proxy: \"http://localhost:9090/ready\"
    check.podgate.io/runner: \"file:///a, tcp://cache:1\"
    check.podgate.io/other: \"mount:///data\"
    podgate.io/on-dependency-restart: restart
spec:
  containers:
  - {name: dind, command: [dockerd]}
  - {name: proxy}
  - {name: runner, command: [run]}
  - {name: other, command: [other]}
",
    );
    assert_check("check-ready-checks", &directory, &["--strict"]);
    let (_, out, _) = check(&directory, &["pod.yaml", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let containers = &report["templates"][0]["containers"];
    let in_container = json!({"check": "unix:///run/docker.sock", "runsIn": "container"});
    assert_eq!((&containers[0]["ready"], &containers[1]["ready"]["runsIn"]), (&in_container, &json!("sidecar")));
    assert_eq!(containers[2]["checks"], json!(["file:///a", "tcp://cache:1"]));
    assert_eq!((&containers[2]["ready"], &containers[2]["restartsWith"]), (&json!(null), &json!(["dind", "proxy"])));
}

#[test]
fn each_mode_has_its_own_text() {
    let known = "command: [api], ";
    assert_eq!(
        waiting("", known),
        format!("  waits    at most 5m until the last container starts or a gate times out\n{GATE_FAILS}")
    );
    assert_eq!(
        waiting("    podgate.io/on-timeout: continue\n", known),
        "  waits    at most 5m until the last container starts\n  \
         timeout  gate: starts the container's command although its conditions are not met\n"
    );
    assert_eq!(
        waiting("    podgate.io/mode: post-start\n", known),
        format!("  waits    at most 10m until the last container starts\n{HOOK_FAILS}{CAUTION}")
    );
    assert_eq!(
        waiting("    podgate.io/mode: post-start\n    podgate.io/on-timeout: continue\n", known),
        format!(
            "  waits    at most 10m until the last container starts\n  \
             timeout  hook: returns, and the kubelet starts the next container: the order is not kept\n{CAUTION}"
        )
    );
    // Hooks hold api back, so db gets a hook too. web gets a gate.
    assert_eq!(
        waiting("    mode.podgate.io/api: post-start\n", known),
        format!(
            "  waits    at most 10m until the last container starts or a gate times out\n{GATE_FAILS}{HOOK_FAILS}{CAUTION}"
        )
    );
    // The kubelet holds api, because podgate does not know its command. web has a gate.
    let held =
        "  timeout  held: the container stays held with the state TimedOut, and starts when its conditions are met\n";
    assert_eq!(
        waiting("", ""),
        format!("  waits    at most 5m until the last container starts or a gate times out\n{held}{GATE_FAILS}")
    );
    assert!(
        waiting("    podgate.io/on-timeout: continue\n", "")
            .contains("held: the kubelet creates the container although its conditions are not met\n")
    );
    let own = waiting("    on-timeout.podgate.io/web: continue\n", known);
    assert!(
        own.contains("a gate times out\n  timeout  gate (api): exits with 75") && own.contains("gate (web): starts"),
        "{own}"
    );
    assert_eq!(waiting("    podgate.io/stop-order: none\n", known).matches("hook").count(), 0);
}

#[test]
fn forecast_shows_who_keeps_the_order_of_init_containers() {
    let (directory, _) = file(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    podgate.io/order: \"setup & mesh, script, api\"
spec:
  initContainers:
  - {name: setup}
  - {name: mesh, restartPolicy: Always, readinessProbe: {tcpSocket: {port: 15021}}}
  containers:
  - {name: script, command: [script], readinessProbe: {tcpSocket: {port: 5432}}}
  - {name: api, command: [api]}
",
    );
    assert_check("check-init-containers", &directory, &[]);
    let (directory, _) = file(
        &std::fs::read_to_string(directory.path().join("pod.yaml"))
            .unwrap()
            .replace("readinessProbe: {tcpSocket: {port: 15021}}", "readinessProbe: {exec: {command: [ready]}}"),
    );
    assert_check("check-known-by-kubelet", &directory, &[]);
}

#[test]
fn forecast_names_kubernetes_if_it_keeps_the_whole_order() {
    let (directory, _) = file(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: vpn
  annotations:
    podgate.io/order: \"gluetun, app\"
spec:
  initContainers:
  - {name: gluetun, restartPolicy: Always, startupProbe: {tcpSocket: {port: 9999}}}
  containers:
  - {name: app, command: [app]}
  - {name: log, command: [log]}
",
    );
    assert_check("check-kept-by-kubernetes", &directory, &[]);
}

//! Tests of `podgate opened`. While a gate waits, the kubelet treats the container as running. A startupProbe with
//! `podgate opened` disables the container's other probes until the gate opens.

use crate::clock::eventually;
use crate::cluster::{minor_version, restart_kubelet};
use crate::orders::gated_chain_containers;
use crate::pod::{Container, Pod, server};
use crate::scene::Scene;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

/// Adds a liveness probe that runs every second and restarts the container at the second failure.
fn liveness(mut handler: Value) -> Value {
    crate::pod::merge(&mut handler, json!({"periodSeconds": 1, "failureThreshold": 2}));
    json!({"livenessProbe": handler})
}

/// Creates a container for each kind of liveness probe. Each container waits for db.
fn one_per_probe_kind() -> Vec<Container> {
    let gate = ["--until", "db"];
    let exec = json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}});
    vec![
        server("http").http(8002).gate(&gate).with(liveness(json!({"httpGet": {"path": "/", "port": 8002}}))),
        server("tcp").tcp(8003).gate(&gate).with(liveness(json!({"tcpSocket": {"port": 8003}}))),
        server("grpc").grpc(8004).gate(&gate).with(liveness(json!({"grpc": {"port": 8004}}))),
        server("exec").args(&["--touch", "/tmp/ready"]).gate(&gate).with(liveness(exec)),
    ]
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn gate_waits_longer_than_the_liveness_probe_allows() {
    let scene = Scene::shared("opened");
    scene.grant_pod_access();
    let bare = server("bare").http(8005).gate(&["--until", "db"]).without_startup_probe();
    let bare = bare.with(liveness(json!({"httpGet": {"path": "/", "port": 8005}})));
    let db = server("db").http(8001).ready_after("9s").gate(&[]);
    let containers: Vec<Container> = [vec![db], one_per_probe_kind(), vec![bare]].concat();
    let run = scene.create(&Pod::new("opened", containers));
    let names = ["http", "tcp", "grpc", "exec"];
    let seen = run
        .watch
        .wait_until("all are ready", 120, |seen| names.iter().all(|name| seen.kubelet_status(name)["ready"] == true));
    let db = run.log("db");
    for name in names {
        assert_eq!(seen.kubelet_status(name)["restartCount"], 0, "{name}");
        assert!(run.log(name).start_time() >= db.ready_time(), "order broken: {name} started before db was ready");
    }
    // The kubelet restarts the container without the startupProbe because the container's liveness probe fails. The
    // gate then waits again.
    let restarts = seen.kubelet_status("bare")["restartCount"].as_i64().unwrap_or(0);
    assert!(restarts >= 1, "the wait was too short for the liveness probe to fail");
    scene.report(&format!("waited 9 s, none restarted; without `podgate opened`: {restarts} restarts"));
    run.watch.wait_until("bare is ready", 120, |seen| seen.kubelet_status("bare")["ready"] == true);
    assert!(run.log("bare").start_time() >= db.ready_time(), "order broken: bare started before db was ready");
}

/// The agent has no gRPC client, so the sidecar runs the container's own startupProbe. Without the startupProbe,
/// the livenessProbe would restart the container.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn startup_probe_that_the_sidecar_runs_delays_the_liveness_probe() {
    let scene = Scene::shared("opened-grpc");
    scene.grant_pod_access();
    let api = server("api").grpc(8002).ready_after("5s").gate(&["--until", "db"]);
    let api = api.with(json!({"startupProbe": {"grpc": {"port": 8002}, "periodSeconds": 1, "failureThreshold": 30}}));
    let api = api.with(liveness(json!({"grpc": {"port": 8002}})));
    let containers = [server("db").http(8001).gate(&[]), api, server("web").http(8003).gate(&["--until", "api"])];
    let run = scene.create(&Pod::new("opened-grpc", containers));
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    assert_eq!(up.kubelet_status("api")["restartCount"], 0);
}

/// From Kubernetes 1.36 on, a restarted kubelet wrongly treats the startupProbe of a waiting container as passed. A
/// liveness probe with `podgate opened --or-waiting` avoids the container restart that a plain `podgate opened` causes.
/// The order is kept in both cases.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_or_waiting_probe_survives_a_kubelet_restart() {
    let Some(scene) = Scene::exclusive("opened-kubelet") else { return };
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("22s", &[]);
    let or_waiting = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--or-waiting", "--check", "http://127.0.0.1:8002/"]}});
    let api = api.with(liveness(or_waiting));
    let web = web.with(liveness(json!({"httpGet": {"path": "/", "port": 8003}})));
    let run = scene.create(&Pod::new("opened-kubelet", [db, api, web]));
    let start = run.wait_for_start("web", 1);
    // The kubelet keeps the wrong probe result only for containers older than 10 s.
    eventually("the containers are older than 10 s", 30, || (crate::clock::wall_ms() - start > 11_000.0).then_some(()));
    restart_kubelet();
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let restarts = |name: &str| up.kubelet_status(name)["restartCount"].as_i64().unwrap_or(0);
    scene.report(&format!("restarts on 1.{}: api {}, web {}", minor_version(), restarts("api"), restarts("web")));
    assert_eq!((restarts("db"), restarts("api")), (0, 0));
}

/// While a gate waits, one process of its startupProbe waits too. If that process is killed, for example because memory
/// is used up, the kubelet starts the probe again, and no container restarts.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn killed_probe_is_started_again() {
    let scene = Scene::shared("opened-killed");
    if !Scene::can_inject_faults("opened-killed") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("12s", &[]);
    let run = scene.create(&Pod::new("opened-killed", [db, api, web]));
    let first = eventually("the probe of api waits", 60, || run.agent_pid("api", "opened"));
    let pid = Pid::from_raw(i32::try_from(first).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("the probe is running");
    eventually("the probe waits again", 30, || run.agent_pid("api", "opened").filter(|pid| *pid != first));
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    for name in ["db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}

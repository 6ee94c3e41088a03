//! Tests of `podgate opened`. While a gate waits, the kubelet treats the container as running. A startupProbe with
//! `podgate opened` disables the container's other probes until the gate opens.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{minor_version, restart_kubelet};
use crate::node_logs::NodeLogs;
use crate::orders::gated_chain_containers;
use crate::pod::{Container, Pod, server};
use crate::scenario_hold::make_ready;
use crate::scenario_stop::{delete, log_of};
use crate::scene::Scene;
use crate::watch::ObservedPod;
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
    let db = server("db").http(8001).args(&["--ready-on-signal"]).gate(&[]);
    let containers: Vec<Container> = [vec![db], one_per_probe_kind(), vec![bare]].concat();
    let run = scene.create(&Pod::new("opened", containers));
    // The kubelet restarts the container without the startupProbe because the container's liveness probe fails. The
    // gate then waits again.
    run.watch.wait_until("bare restarts", 120, |seen| seen.kubelet_status("bare")["restartCount"] == 1);
    make_ready(&run);
    let names = ["http", "tcp", "grpc", "exec"];
    let seen = run
        .watch
        .wait_until("all are ready", 120, |seen| names.iter().all(|name| seen.kubelet_status(name)["ready"] == true));
    let db = run.log("db");
    for name in names {
        assert_eq!(seen.kubelet_status(name)["restartCount"], 0, "{name}");
        assert!(run.log(name).start_time() >= db.ready_time(), "order broken: {name} started before db was ready");
    }
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

/// Makes the server listen only on the Pod's IP, accept only this host, and redirect /health.
fn strict(server: Container) -> Container {
    let pod_ip = json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    server.args(&["--only-at", "$(POD_IP)"]).with(json!({"env": [pod_ip]}))
}

/// The kubelet would send the startupProbe to the Pod's IP and follow the redirect to a page that says 503 until the
/// program is ready. If podgate's startupProbe passed before, the livenessProbe would restart the container.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn startup_probe_behind_a_gate_is_the_users() {
    let scene = Scene::shared("opened-strict");
    scene.grant_pod_access();
    let get = json!({"httpGet": {"path": "/health", "port": 8002}});
    let mut startup = get.clone();
    crate::pod::merge(&mut startup, json!({"periodSeconds": 1, "failureThreshold": 60}));
    let api = strict(server("api").http(8002).ready_after("6s")).gate(&["--until", "db"]);
    let api = api.with(json!({"startupProbe": startup})).with(liveness(get));
    let containers = [server("db").http(8001).gate(&[]), api, server("web").http(8003).gate(&["--until", "api"])];
    let run = scene.create(&Pod::new("opened-strict", containers));
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    assert_eq!(up.kubelet_status("api")["restartCount"], 0);
}

/// Each attempt hangs for 3 s until the program is ready, so the kubelet's four failures take 12 s, not 4 s.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn startup_probe_behind_a_gate_counts_failures_like_the_kubelet() {
    let scene = Scene::shared("opened-slow");
    scene.grant_pod_access();
    let times = json!({"periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": 4});
    let startup = |port: u16| {
        let mut probe = json!({"httpGet": {"path": "/", "port": port}});
        crate::pod::merge(&mut probe, times.clone());
        json!({"startupProbe": probe})
    };
    let until_db = ["--until", "db"];
    let slow = server("slow")
        .http(8002)
        .args(&["--before-ready", "silent"])
        .ready_after("8s")
        .gate(&until_db)
        .with(startup(8002));
    let never = server("never")
        .http(8003)
        .args(&["--before-ready", "silent"])
        .ready_after("1h")
        .gate(&until_db)
        .with(startup(8003));
    let run = scene.create(&Pod::new("opened-slow", [server("db").http(8001).gate(&[]), slow, never]));
    let restarted = |seen: &crate::watch::ObservedPod| seen.kubelet_status("never")["restartCount"].as_i64() > Some(0);
    let seen = run.watch.wait_until("the container whose startupProbe fails is restarted", 120, restarted);
    let log = run.sidecar_log();
    assert!(log.contains("the startupProbe has failed too often"), "{log}");
    assert_eq!(seen.kubelet_status("slow")["ready"], true);
    assert_eq!(seen.kubelet_status("slow")["restartCount"], 0);
}

/// The kubelet sends the request of a preStop hook to the Pod's IP, and accepts any answer.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pre_stop_request_goes_to_the_pods_ip() {
    let scene = Scene::shared("opened-drain");
    if !Scene::can_inject_faults("opened-drain") {
        return;
    }
    scene.grant_pod_access();
    let then = r#"["/podgate/bin/podgate","check","--hook","http://:8001/drain"]"#;
    let db = strict(server("db").http(8001)).gate(&[]).pre_stop(&["--until", "api", "--then", then]);
    let run = scene.create(&Pod::new("opened-drain", [db, server("api").http(8002).gate(&["--until", "db"])]));
    let logs = NodeLogs::follow(&scene.namespace, "opened-drain");
    run.wait_until_up();
    let (lives, _) = delete(&run, &logs);
    let (db, api) = (log_of(&lives, "db"), log_of(&lives, "api"));
    let drain = db.expect_time_of("drain");
    assert!(api.end.is_some_and(|end| end <= drain) && drain <= db.expect_time_of("term"), "{db:?} {api:?}");
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
    eventually("the containers are older than 10 s", 30, || (wall_ms() - start > 11_000.0).then_some(()));
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
    let api = api.with(liveness(json!({"tcpSocket": {"port": 8002}})));
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

/// Restarts `api` by `signal` while `db` is down. On 1.35 to 1.37, the kubelet can treat the startupProbe of a
/// container that it has just restarted as passed (kubernetes#141155), so an impatient livenessProbe can kill the
/// waiting gate. The kubelet must not do so again and again.
fn assert_gate_survives_a_restart(name: &str, signal: &str) {
    let scene = Scene::shared(name);
    if !Scene::can_inject_faults(name) {
        return;
    }
    scene.grant_pod_access();
    let http = json!({"httpGet": {"path": "/", "port": 8002}, "periodSeconds": 1, "failureThreshold": 1});
    let api = server("api").http(8002).gate(&["--until", "db"]).with(json!({"livenessProbe": http}));
    let db = server("db").http(8001).args(&["--ready-on-signal"]).gate(&[]);
    let run = scene.create(&Pod::new(name, [db, api]));
    make_ready(&run);
    run.wait_until_up();
    run.signal("db", "KILL");
    run.wait_for_start("db", 2);
    run.signal("api", signal);
    let restarts = |seen: &ObservedPod| seen.kubelet_status("api")["restartCount"].as_u64().unwrap_or_default();
    let waits = |seen: &ObservedPod| {
        let status = seen.kubelet_status("api");
        restarts(seen) > 0 && status["state"]["running"].is_object() && status["started"] == false
    };
    // The gate waits for ten times as long as the livenessProbe allows.
    let waiting = eventually("the gate of api waits", 120, || {
        run.watch.last().filter(|seen| waits(seen) && wall_ms() - seen.at > 10_000.0)
    });
    let (killed, seen) = (restarts(&waiting) - 1, run.watch.len());
    make_ready(&run);
    let up = run.watch.wait_from(seen, "api is up again", 120, ObservedPod::is_up);
    run.assert_order(&["db", "api"]);
    scene.report(&format!("the livenessProbe killed the waiting gate {killed} times on 1.{}", minor_version()));
    assert_eq!(restarts(&up), restarts(&waiting));
    assert!(killed <= 2, "{killed}");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn gate_survives_a_restart_after_an_exit() {
    assert_gate_survives_a_restart("opened-exit", "USR1");
}

/// The suspended program fails its livenessProbe, so the kubelet kills and restarts the container in one sync.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn gate_survives_a_restart_by_the_liveness_probe() {
    assert_gate_survives_a_restart("opened-liveness", "STOP");
}

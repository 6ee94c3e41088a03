//! A container that waits in its gate runs already for the kubelet: `podgate opened` keeps its other probes back.

use crate::cluster::{minor_version, restart_kubelet};
use crate::orders::gated_chain_containers;
use crate::pod::{Container, Pod, server};
use crate::scene::Scene;
use serde_json::{Value, json};

/// Every second, dead at the second failure.
fn liveness(mut handler: Value) -> Value {
    crate::pod::merge(&mut handler, json!({"periodSeconds": 1, "failureThreshold": 2}));
    json!({"livenessProbe": handler})
}

/// A container that waits for db, with a liveness probe of each kind.
fn kinds() -> Vec<Container> {
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
fn longer_than_the_liveness_probe_would_allow() {
    let scene = Scene::shared("opened");
    scene.grant_pod_access();
    let naked = server("naked").http(8005).gate(&["--until", "db"]).without_startup_probe();
    let naked = naked.with(liveness(json!({"httpGet": {"path": "/", "port": 8005}})));
    let db = server("db").http(8001).ready_after("9s").gate(&[]);
    let containers: Vec<Container> = [vec![db], kinds(), vec![naked]].concat();
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
    // One without it is killed by its liveness probe meanwhile, and waits again.
    let restarts = seen.kubelet_status("naked")["restartCount"].as_i64().unwrap_or(0);
    assert!(restarts >= 1, "the liveness probe would have allowed it");
    scene.report(&format!("waited 9 s, none restarted; without `podgate opened`: {restarts} restarts"));
    run.watch.wait_until("that one too", 120, |seen| seen.kubelet_status("naked")["ready"] == true);
    assert!(run.log("naked").start_time() >= db.ready_time(), "order broken: naked started before db was ready");
}

/// From 1.36 on a kubelet that restarts takes a startupProbe for passed that never was: a liveness probe has to know of the gate
/// by itself, or costs a restart. The order is kept either way.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn through_a_restart_of_the_kubelet() {
    let Some(scene) = Scene::exclusive("opened-kubelet") else { return };
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("22s", &[]);
    let knows = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--or-waiting", "--check", "http://127.0.0.1:8002/"]}});
    let knows = api.with(liveness(knows));
    let knows_not = web.with(liveness(json!({"httpGet": {"path": "/", "port": 8003}})));
    let run = scene.create(&Pod::new("opened-kubelet", [db, knows, knows_not]));
    let start = run.wait_for_start("web", 1);
    // Older than 10 s: only then does it keep what it takes for passed.
    crate::clock::eventually("the containers are older than 10 s", 30, || {
        (crate::clock::wall_ms() - start > 11_000.0).then_some(())
    });
    restart_kubelet();
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let restarts = |name: &str| up.kubelet_status(name)["restartCount"].as_i64().unwrap_or(0);
    scene.report(&format!("restarts on 1.{}: api {}, web {}", minor_version(), restarts("api"), restarts("web")));
    assert_eq!((restarts("db"), restarts("api")), (0, 0));
}

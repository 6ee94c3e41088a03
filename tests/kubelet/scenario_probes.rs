//! Readiness probes of every kind.

use crate::pod::{Pod, server};
use crate::scene::Scene;
use serde_json::json;

#[test]
#[ignore = "needs a cluster: make e2e"]
fn hooks_wait_for_every_kind_of_probe() {
    let scene = Scene::shared("probes");
    scene.grant_pod_access();
    let command = ["/testserver", "check", "/tmp/ready"];
    let check = format!("exec:{}", json!(command));
    let exec = server("exec").args(&["--touch", "/tmp/ready"]).ready_after("1200ms");
    let containers = [
        exec.probe(json!({"exec": {"command": command}})).hook(&["--check", &check]),
        server("tcp").tcp(8001).args(&["--listen-after", "1200ms"]).hook(&[]),
        server("grpc").grpc(8002).ready_after("1200ms").hook(&[]),
        server("http").http(8003).ready_after("1200ms").hook(&[]),
        // This probe refers to the port by name, and needs two successes in a row.
        server("named")
            .args(&["--http", "8004"])
            .ready_after("1200ms")
            .probe(json!({"httpGet": {"path": "/", "port": "web"}, "successThreshold": 2}))
            .with(json!({"ports": [{"name": "web", "containerPort": 8004}]}))
            .hook(&[]),
        // This container also has a startup probe, which runs before the readiness probe.
        server("startup")
            .args(&["--tcp", "8005", "--http", "8006", "--ready-after", "1200ms"])
            .probe(json!({"tcpSocket": {"port": 8005}}))
            .with(json!({"startupProbe": {"httpGet": {"path": "/", "port": 8006}, "periodSeconds": 1}}))
            .hook(&[]),
        server("last").http(8007),
    ];
    let pod = Pod::new("probes", containers);
    let run = scene.create(&pod);
    let up = run.wait_until_up();
    let lives = run.assert_order(&pod.names());
    for gated in &lives[..lives.len() - 1] {
        assert_eq!(gated.last_message(), "released: all conditions are met", "{}", gated.name);
    }
    for name in pod.names() {
        assert_eq!(
            (up.podgate_state(name), &up.kubelet_status(name)["restartCount"]),
            (Some("Ready"), &json!(0)),
            "{name}"
        );
    }
    let (named, next) = (&lives[4], &lives[5]);
    let later = next.start_time() - named.ready_time();
    assert!(later >= 990.0, "two successes are a second apart, but the next container started after {later:.0} ms");
}

/// The gate runs the exec probe, because the sidecar cannot run commands in other containers. For this, the gate stays as
/// the command's parent.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn gate_runs_the_exec_probe_of_its_container() {
    let scene = Scene::shared("exec-gate");
    scene.grant_pod_access();
    let command = ["/testserver", "check", "/tmp/ready"];
    let check = format!("exec:{}", json!(command));
    let db = server("db").args(&["--touch", "/tmp/ready"]).ready_after("1500ms");
    let db = db.probe(json!({"exec": {"command": command}, "periodSeconds": 1}));
    let containers = [db.gate(&["--ready-check", &check]), server("api").http(8002).gate(&["--until", "db"])];
    let run = scene.create(&Pod::new("exec-gate", containers));
    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api"]);
    assert_eq!(up.kubelet_status("db")["restartCount"], 0);
    scene.report(&format!("api started {:.0} ms after db was ready", lives[1].start_time() - lives[0].ready_time()));
}

//! Tests readiness probes of every kind.

use crate::clock::{eventually, wall_ms};
use crate::cluster::restart_kubelet;
use crate::pod::{Pod, server};
use crate::scene::Scene;
use serde_json::json;
use std::cell::Cell;
use std::fs;
use std::time::Duration;

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

/// The gate runs the exec probe, because the sidecar cannot run commands in other containers. For this, the gate stays
/// as the command's parent.
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

/// Without a gate, the wrapped readinessProbe waits until the command succeeds, and then reports the success to the
/// sidecar. Without this report, the next container could start up to one period (20 s) late. The period is not
/// longer, because a kubelet that started less than one period ago delays the first probe.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn wrapped_probe_releases_a_held_container() {
    let scene = Scene::shared("wrapped-probe");
    scene.grant_pod_access();
    let rare = json!({"readinessProbe": {"periodSeconds": 20}});
    let probed = |name: &str| {
        let server = server(name).args(&["--touch", "/tmp/ready"]).ready_after("1500ms");
        server.wrapped_probe(&["/testserver", "check", "/tmp/ready"]).with(rare.clone())
    };
    let containers = [
        probed("db"),
        probed("api").held(&["--until", "db"]),
        server("web").http(8003).held(&["--until", "db", "--until", "api"]),
    ];
    let run = scene.create(&Pod::new("wrapped-probe", containers));
    run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for pair in lives.windows(2) {
        let took = pair[1].start_time() - pair[0].ready_time();
        assert!(took < 20_000.0, "{} started {took:.0} ms after {} was Ready", pair[1].name, pair[0].name);
        scene.report(&format!("{} started {took:.0} ms after {} was Ready", pair[1].name, pair[0].name));
    }
}

/// The report of a passed probe must not count for the next run of the container.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn wrapped_probe_of_a_restarted_container_waits_again() {
    if !Scene::can_inject_faults("wrapped-again") {
        return;
    }
    let scene = Scene::shared("wrapped-again");
    scene.grant_pod_access();
    let db = server("db").args(&["--touch", "/tmp/ready"]).ready_after("3s");
    let db = db.wrapped_probe(&["/testserver", "check", "/tmp/ready"]);
    let run = scene.create(&Pod::new("again", [db, server("api").http(8002).held(&["--until", "db"])]));
    run.wait_until_up();
    run.assert_order(&["db", "api"]);
    let (killed, seen) = (wall_ms(), run.watch.len());
    run.signal("db", "KILL");
    run.wait_for_start("db", 2);
    let has_ended = Cell::new(false);
    run.watch.wait_from(seen, "podgate shows the restart, and then Ready", 60, |seen| {
        let is_ready = seen.podgate_state("db") == Some("Ready");
        has_ended.set(has_ended.get() || !is_ready);
        has_ended.get() && is_ready
    });
    let known = wall_ms();
    let ready =
        eventually("the server is ready again", 10, || run.log("db").time_of("ready").filter(|at| *at > killed));
    assert!(known > ready, "podgate showed Ready {:.0} ms before the server was ready", ready - known);
}

/// While the sidecar is idle, the probe of `db` begins to fail. The process of `db` and its old report remain, but a
/// restarted container must wait.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restarted_container_waits_for_an_exec_probe_that_failed_while_the_sidecar_was_idle() {
    if !Scene::can_inject_faults("exec-idle") {
        return;
    }
    let scene = Scene::shared("exec-idle");
    scene.grant_pod_access();
    let command = ["/testserver", "check", "/tmp/ready"];
    let wrapped = server("db").args(&["--touch", "/tmp/ready"]).wrapped_probe(&command);
    let gated = server("db").args(&["--touch", "/tmp/ready"]).probe(json!({"exec": {"command": command}}));
    let check = format!("exec:{}", json!(command));
    for (name, db) in [("wrapped", wrapped), ("gated", gated.gate(&["--tether", "parent", "--ready-check", &check]))] {
        let run = scene.create(&Pod::new(name, [db, server("api").http(8002).gate(&["--until", "db"])]));
        run.wait_until_up();
        eventually("the sidecar is idle", 30, || run.sidecar_log().contains("going idle").then_some(()));
        let (file, seen) = (format!("/proc/{}/root/tmp/ready", run.pid("db").expect("db runs")), run.watch.len());
        fs::remove_file(&file).expect("the file of db");
        run.watch.wait_from(seen, "db is not ready", 60, |seen| seen.kubelet_status("db")["ready"] == false);
        let killed = wall_ms();
        run.signal("api", "KILL");
        run.watch
            .wait_until("podgate knows that db is not ready", 60, |seen| seen.podgate_state("db") == Some("NotReady"));
        std::thread::sleep(Duration::from_secs(3));
        let ready = wall_ms();
        fs::write(&file, "").expect("the file of db");
        let started = eventually("api runs again", 60, || run.log("api").time_of("start").filter(|at| *at > killed));
        assert!(started > ready, "{name}: api started {:.0} ms before db was Ready again", ready - started);
    }
}

/// A restarted kubelet starts a second probe beside the first one, and reports wrong statuses for seconds.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn wrapped_probe_keeps_the_order_when_the_kubelet_restarts_alone() {
    let Some(scene) = Scene::exclusive("wrapped-kubelet") else { return };
    scene.grant_pod_access();
    let db = server("db").args(&["--touch", "/tmp/ready", "--ready-on-signal"]);
    let db = db.wrapped_probe(&["/testserver", "check", "/tmp/ready"]);
    let run = scene.create(&Pod::new("kubelet", [db, server("api").http(8002).held(&["--until", "db"])]));
    run.watch.wait_until("podgate knows that db runs", 60, |seen| seen.podgate_state("db") == Some("Started"));
    restart_kubelet();
    // For some seconds after a restart, the kubelet may wrongly report containers as ready.
    std::thread::sleep(Duration::from_secs(7));
    run.signal("db", "USR2");
    let up = run.wait_until_up();
    run.assert_order(&["db", "api"]);
    assert_eq!(up.kubelet_status("db")["restartCount"], 0);
}

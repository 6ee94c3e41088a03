//! Tests faults of the API server, the kubelet and the sidecar during the start of a Pod.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{ApiServerStopped, restart_kubelet};
use crate::incarnation_log::IncarnationLog;
use crate::orders::{chain, chain_containers};
use crate::pod::{Pod, server};
use crate::scene::Scene;
use crate::watch::ObservedPod;
use serde_json::json;

const NAMES: [&str; 3] = ["db", "api", "web"];

/// Starts a Pod while the API server is stopped. The sidecar uses only `--containers` and the board. When the API
/// server runs again, the sidecar updates the annotations.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_pod_starts_in_order_without_the_api_server() {
    let Some(scene) = Scene::exclusive("api-away") else { return };
    scene.grant_pod_access();
    let run = scene.create(&chain("api-away", "4s"));
    run.wait_for_start("podgate", 1);
    let stopped = wall_ms();
    let away = ApiServerStopped::stop();
    let last = run.wait_for_start("web", 1);
    drop(away);
    run.wait_until_up();
    let lives = run.assert_order(&NAMES);
    assert!(stopped < lives[0].ready_time(), "the API server was stopped too late for this test");
    assert!(last > stopped);
    for gated in &lives[..2] {
        assert_eq!(gated.last_message(), "released: all conditions are met", "{}", gated.name);
    }
    let all_ready = |s: &ObservedPod| NAMES.iter().all(|name| s.podgate_state(name) == Some("Ready"));
    run.watch.wait_until("the sidecar updates the annotations", 90, all_ready);
    scene.report(&format!("API server away from {:+.2} to web's start", (stopped - lives[0].start_time()) / 1000.0));
}

/// Restarts the kubelet while db's hook waits. The restarted kubelet kills the hook and starts the next container,
/// which post-start mode cannot prevent. For some seconds, the kubelet also wrongly reports containers as ready.
/// podgate must not rely on these reports: the hook of api also waits for db.
fn assert_order_survives_kubelet_restart(name: &str, db: crate::pod::Container) {
    let Some(scene) = Scene::exclusive(name) else { return };
    scene.grant_pod_access();
    let api = server("api").http(8002).ready_after("500ms").hook(&["--until", "db", "--until", "api"]);
    let run = scene.create(&Pod::new(name, [db.ready_after("14s").hook(&[]), api, server("web").http(8003)]));
    run.wait_for_start("db", 1);
    eventually("db's hook runs", 30, || run.agent_pid("db", "post-start"));
    restart_kubelet();
    let up = run.wait_until_up();
    let lives: Vec<IncarnationLog> = NAMES.iter().map(|name| run.log(name)).collect();
    scene.report(&crate::incarnation_log::summary(&lives));
    let (db, api, web) = (&lives[0], &lives[1], &lives[2]);
    let seen = run.watch.history();
    let false_ready: Vec<f64> = seen
        .iter()
        .filter(|s| s.at < db.ready_time() && s.kubelet_status("db")["ready"] == true)
        .map(|s| s.at)
        .collect();
    let span = false_ready.first().map_or(0.0, |from| false_ready.last().unwrap_or(from) - from);
    scene.report(&format!("the kubelet reported db as ready {} times too early, over {span:.0} ms", false_ready.len()));
    if let Some(early) = seen.iter().find(|s| s.at < db.ready_time() && s.podgate_state("db") == Some("Ready")) {
        panic!("podgate published db as Ready {:.0} ms before db was ready", db.ready_time() - early.at);
    }
    assert!(
        web.start_time() >= db.ready_time(),
        "order broken: web started {:.0} ms before db was ready",
        db.ready_time() - web.start_time()
    );
    assert!(
        web.start_time() >= api.ready_time(),
        "order broken: web started {:.0} ms before api was ready",
        api.ready_time() - web.start_time()
    );
    assert_eq!(api.last_message(), "released: all conditions are met");
    assert_eq!(up.kubelet_status("db")["restartCount"], 0);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_order_survives_a_kubelet_restart() {
    assert_order_survives_kubelet_restart("kubelet", server("db").http(8001));
}

/// The hook of db could run the exec probe as a check, but the kubelet's restart kills the hook. After that, only the
/// kubelet can run the probe.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_order_survives_a_kubelet_restart_with_exec_probe() {
    let probe = json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}});
    assert_order_survives_kubelet_restart("kubelet-exec", server("db").args(&["--touch", "/tmp/ready"]).probe(probe));
}

/// Kills the sidecar while a hook waits. The kubelet does not restart the sidecar until the hook returns, so the hooks
/// run their fallback checks.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hooks_run_fallback_checks_after_the_sidecar_dies() {
    let scene = Scene::shared("fallback");
    if !Scene::can_inject_faults("fallback") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = chain_containers("6s", &[]);
    let db = db.hook(&["--fallback-check", "http://127.0.0.1:8001/"]);
    let api = api.hook(&["--fallback-check", "http://127.0.0.1:8002/"]);
    let run = scene.create(&Pod::new("fallback", [db, api, web]));
    run.wait_for_start("db", 1);
    eventually("db's hook runs", 30, || run.agent_pid("db", "post-start"));
    run.signal("podgate", "KILL");
    run.wait_until_up();
    let lives = run.assert_order(&NAMES);
    assert_eq!(lives[0].last_message(), "released: the sidecar is not running, and the fallback check has passed");
    scene.report(&format!("api: {}", lives[1].last_message()));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_reports_a_dead_sidecar_when_it_times_out() {
    let scene = Scene::shared("no-fallback");
    if !Scene::can_inject_faults("no-fallback") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = chain_containers("10m", &["--timeout", "5s"]);
    let run = scene.create(&Pod::new("no-fallback", [db, api, web]));
    run.wait_for_start("db", 1);
    eventually("db's hook runs", 30, || run.agent_pid("db", "post-start"));
    run.signal("podgate", "KILL");
    let words =
        |s: &ObservedPod| s.kubelet_status("db")["lastState"]["terminated"]["message"].as_str().map(str::to_owned);
    let seen = run.watch.wait_until("db's termination message", 60, |s| words(s).is_some());
    let words = words(&seen).unwrap_or_default();
    assert!(words.contains("timed out after 5s") && words.contains("the sidecar is not running"), "{words}");
    scene.report(&words);
}

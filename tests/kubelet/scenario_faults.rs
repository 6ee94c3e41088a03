//! What goes wrong around the pod while it starts.

use crate::clock::{eventually, wall};
use crate::cluster::{ApiServerStopped, restart_kubelet};
use crate::orders::{chain, chain_containers};
use crate::pod::{Pod, server};
use crate::scene::Scene;
use crate::timeline::Life;
use crate::watch::Seen;
use serde_json::json;

const NAMES: [&str; 3] = ["db", "api", "web"];

/// `--containers` and the board suffice; the annotations follow when the API is back.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn api_server_away_for_the_whole_start() {
    let Some(scene) = Scene::alone("api-away") else { return };
    scene.grant();
    let run = scene.create(&chain("api-away", "4s"));
    run.started("podgate", 1);
    let stopped = wall();
    let away = ApiServerStopped::now();
    let last = run.started("web", 1);
    drop(away);
    run.up();
    let lives = run.in_order(&NAMES);
    assert!(stopped < lives[0].ready(), "the API server was stopped too late to show anything");
    assert!(last > stopped);
    for gated in &lives[..2] {
        assert_eq!(gated.reason(), "released: all conditions hold", "{}", gated.name);
    }
    let all_ready = |s: &Seen| NAMES.iter().all(|name| s.state(name) == Some("Ready"));
    run.watch.until("the annotations follow", 90, all_ready);
    scene.tell(&format!("API server away from {:+.2} to web's start", (stopped - lives[0].start()) / 1000.0));
}

/// A kubelet that restarts kills the hook and starts the next container: that is the limit of this mode. For seconds it also
/// calls ready what never was. What podgate decides must not fall for it: api's hook waits for db too.
fn kubelet_restarts(name: &str, db: crate::pod::Container) {
    let Some(scene) = Scene::alone(name) else { return };
    scene.grant();
    let api = server("api").http(8002).ready_after("500ms").hook(&["--until", "db", "--until", "api"]);
    let run = scene.create(&Pod::new(name, [db.ready_after("14s").hook(&[]), api, server("web").http(8003)]));
    run.started("db", 1);
    eventually("db's hook runs", 30, || run.hook_of("db"));
    restart_kubelet();
    let up = run.up();
    let lives: Vec<Life> = NAMES.iter().map(|name| run.life(name)).collect();
    scene.tell(&crate::timeline::summary(&lives));
    let (db, api, web) = (&lives[0], &lives[1], &lives[2]);
    let seen = run.watch.all();
    let lies: Vec<f64> =
        seen.iter().filter(|s| s.at < db.ready() && s.status("db")["ready"] == true).map(|s| s.at).collect();
    let span = lies.first().map_or(0.0, |from| lies.last().unwrap_or(from) - from);
    scene.tell(&format!("the kubelet called db ready {} times too early, over {span:.0} ms", lies.len()));
    if let Some(early) = seen.iter().find(|s| s.at < db.ready() && s.state("db") == Some("Ready")) {
        panic!("podgate published db as Ready {:.0} ms before it was", db.ready() - early.at);
    }
    assert!(
        web.start() >= db.ready(),
        "order broken: web started {:.0} ms before db was ready",
        db.ready() - web.start()
    );
    assert!(
        web.start() >= api.ready(),
        "order broken: web started {:.0} ms before api was ready",
        api.ready() - web.start()
    );
    assert_eq!(api.reason(), "released: all conditions hold");
    assert_eq!(up.status("db")["restartCount"], 0);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn kubelet_restarts_while_db_is_not_ready() {
    kubelet_restarts("kubelet", server("db").http(8001));
}

/// Here only the kubelet itself can judge: the hook that ran the check is dead.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn kubelet_restarts_while_only_it_can_judge_db() {
    let probe = json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}});
    kubelet_restarts("kubelet-exec", server("db").args(&["--touch", "/tmp/ready"]).probe(probe));
}

/// Under a hook the kubelet does not restart it: the hooks judge for themselves.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn sidecar_killed_with_a_fallback() {
    let scene = Scene::shared("fallback");
    if !Scene::needs_faults("fallback") {
        return;
    }
    scene.grant();
    let [db, api, web] = chain_containers("6s", &[]);
    let db = db.hook(&["--fallback-check", "http://127.0.0.1:8001/"]);
    let api = api.hook(&["--fallback-check", "http://127.0.0.1:8002/"]);
    let run = scene.create(&Pod::new("fallback", [db, api, web]));
    run.started("db", 1);
    eventually("db's hook runs", 30, || run.hook_of("db"));
    run.signal("podgate", "KILL");
    run.up();
    let lives = run.in_order(&NAMES);
    assert_eq!(lives[0].reason(), "released: the controller is dead, and the fallback check has passed");
    scene.tell(&format!("api: {}", lives[1].reason()));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn sidecar_killed_without_a_fallback() {
    let scene = Scene::shared("no-fallback");
    if !Scene::needs_faults("no-fallback") {
        return;
    }
    scene.grant();
    let [db, api, web] = chain_containers("10m", &["--timeout", "5s"]);
    let run = scene.create(&Pod::new("no-fallback", [db, api, web]));
    run.started("db", 1);
    eventually("db's hook runs", 30, || run.hook_of("db"));
    run.signal("podgate", "KILL");
    let words = |s: &Seen| s.status("db")["lastState"]["terminated"]["message"].as_str().map(str::to_owned);
    let seen = run.watch.until("db's last words", 60, |s| words(s).is_some());
    let words = words(&seen).unwrap_or_default();
    assert!(words.contains("timed out after 5s") && words.contains("the controller is dead"), "{words}");
    scene.tell(&words);
}

//! Tests attacks by another container of the same Pod.

use crate::clock::eventually;
use crate::cluster::requests_of;
use crate::orders::{chain_containers, gated_chain_containers};
use crate::pod::{Pod, server};
use crate::scene::Scene;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Returns the CPU time that a process has used, in seconds.
fn cpu(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = [fields.get(11)?, fields.get(12)?].iter().filter_map(|f| f.parse::<f64>().ok()).sum();
    Some(ticks / 100.0)
}

/// Runs the `attacks` in the container `mallory` as root. The attacks may damage `mallory` itself. The other containers
/// must still start in order. The hook and the sidecar must not spin or exit, and must not leak the sidecar's token.
fn assert_order_survives(name: &str, attacks: &[&str]) {
    let scene = Scene::shared(name);
    if !Scene::can_inject_faults(name) {
        return;
    }
    scene.grant_pod_access();
    let mallory = attacks
        .iter()
        .fold(server("mallory").running_as_root(), |mallory, attack| mallory.args(&["--hostile", attack]));
    let [db, api, web] = chain_containers("12s", &[]);
    let run = scene.create(&Pod::new(name, [mallory, db, api, web]));
    run.wait_for_start("db", 1);
    let (hook, sidecar) =
        eventually("db's hook runs", 30, || run.agent_pid("db", "post-start").zip(run.pid("podgate")));
    let used = |pid| cpu(pid).unwrap_or_else(|| panic!("process {pid} has ended"));
    let before = (used(hook), used(sidecar));
    sleep(Duration::from_secs(3));
    let (hook, sidecar) = (used(hook) - before.0, used(sidecar) - before.1);
    scene.report(&format!("in 3 s, the hook used {hook:.2} s of CPU and the sidecar {sidecar:.2} s"));
    assert!(hook < 0.3, "the hook spins: {hook} s");
    assert!(sidecar < 1.0, "the sidecar spins: {sidecar} s");

    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for life in &lives[..2] {
        assert!(life.last_message().starts_with("released: "), "{}: {:?}", life.name, life.last_message());
    }
    let mallory = run.log("mallory");
    for attack in attacks {
        let outcomes = mallory.events.iter().filter(|event| event.name == format!("hostile {attack}"));
        let outcomes: Vec<&str> = outcomes.map(|event| event.detail.as_str()).collect();
        assert!(!outcomes.is_empty(), "mallory did nothing: {mallory:?}");
        scene.report(&format!("{attack}: {} outcomes, such as: {}", outcomes.len(), outcomes[0]));
    }
    for name in ["podgate", "db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    // After the start, attacks must not make the sidecar send API requests.
    let requests = || requests_of(&scene.namespace).len();
    let before = requests();
    sleep(Duration::from_secs(5));
    let further = requests() - before;
    scene.report(&format!("{further} requests to the API in 5 s after the start"));
    assert!(further <= 5, "the attacks make the sidecar send {further} API requests in 5 s");
    // JSON web tokens begin with "eyJ".
    let public = format!("{}{}", up.pod["metadata"]["annotations"], run.sidecar_log());
    assert!(!public.contains("eyJ"), "the sidecar's token leaked: {public}");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_rings_the_bell() {
    assert_order_survives("hostile-bell", &["bell"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_fills_its_directory() {
    assert_order_survives("hostile-fill", &["fill"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_plants_links() {
    assert_order_survives("hostile-links", &["links"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_lies_about_itself() {
    assert_order_survives("hostile-lies", &["lies"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_combines_attacks() {
    assert_order_survives("hostile-all", &["bell", "links", "fill"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn order_survives_a_neighbor_that_locks_the_board() {
    assert_order_survives("hostile-locks", &["locks"]);
}

/// Kills the sidecar while a container holds locks on each file of the board.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restarted_sidecar_starts_beside_a_neighbor_that_locks_the_board() {
    let scene = Scene::shared("hostile-restart");
    if !Scene::can_inject_faults("hostile-restart") {
        return;
    }
    scene.grant_pod_access();
    let mallory = server("mallory").running_as_root().args(&["--hostile", "locks"]);
    let [db, api, web] = gated_chain_containers("12s", &[]);
    let run = scene.create(&Pod::new("hostile-restart", [mallory, db, api, web]));
    run.wait_for_start("db", 1);
    eventually("mallory has opened the board's files", 30, || run.log("mallory").time_of("hostile locks"));
    run.signal("podgate", "KILL");
    let up = run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    assert_eq!(up.kubelet_status("podgate")["restartCount"], 1);
}

//! A neighbour in the same pod that means harm.

use crate::clock::eventually;
use crate::cluster::requests_of;
use crate::orders::chain_containers;
use crate::pod::{Pod, server};
use crate::scene::Scene;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// CPU time that a process has used, in seconds.
fn cpu(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = [fields.get(11)?, fields.get(12)?].iter().filter_map(|f| f.parse::<f64>().ok()).sum();
    Some(ticks / 100.0)
}

/// `mallory`, who runs as root and does `what`, may hurt itself. The others start in order all the same, nobody spins, nobody
/// dies, and no secret of the sidecar's gets out.
fn root_neighbour(name: &str, what: &[&str]) {
    let scene = Scene::shared(name);
    if !Scene::can_inject_faults(name) {
        return;
    }
    scene.grant_pod_access();
    let mallory =
        what.iter().fold(server("mallory").running_as_root(), |mallory, what| mallory.args(&["--hostile", what]));
    let [db, api, web] = chain_containers("12s", &[]);
    let run = scene.create(&Pod::new(name, [mallory, db, api, web]));
    run.wait_for_start("db", 1);
    let (hook, sidecar) = eventually("db's hook runs", 30, || run.hook_pid("db").zip(run.pid("podgate")));
    let used = |pid| cpu(pid).unwrap_or_else(|| panic!("process {pid} has ended"));
    let before = (used(hook), used(sidecar));
    sleep(Duration::from_secs(3));
    let (hook, sidecar) = (used(hook) - before.0, used(sidecar) - before.1);
    scene.report(&format!("in 3 s, the hook used {hook:.2} s of CPU and the sidecar {sidecar:.2} s"));
    assert!(hook < 0.3, "the hook spins: {hook} s");
    assert!(sidecar < 1.0, "the sidecar spins: {sidecar} s");

    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    let late = lives[1].start_time() - lives[0].ready_time();
    assert!(late < 5000.0, "the slow re-read helps after 1 s, and api started {late:.0} ms after db was ready");
    let harm = run.log("mallory");
    for what in what {
        let did = harm.events.iter().filter(|event| event.name == format!("hostile {what}"));
        let did: Vec<&str> = did.map(|event| event.detail.as_str()).collect();
        assert!(!did.is_empty(), "mallory did nothing: {harm:?}");
        scene.report(&format!("{what}: {} deeds, such as: {}", did.len(), did[0]));
    }
    for name in ["podgate", "db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    // With all up, it is left alone by the rest of the world too.
    let requests = || requests_of(&scene.namespace).len();
    let before = requests();
    sleep(Duration::from_secs(5));
    let further = requests() - before;
    scene.report(&format!("{further} requests to the API in 5 s after the start"));
    assert!(further <= 5, "a neighbour makes the sidecar ask the API {further} times in 5 s");
    // A JSON web token begins so.
    let said = format!("{}{}", up.pod["metadata"]["annotations"], run.sidecar_log());
    assert!(!said.contains("eyJ"), "the sidecar's token: {said}");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn root_neighbour_rings_the_bell() {
    root_neighbour("hostile-bell", &["bell"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn root_neighbour_fills_its_folder() {
    root_neighbour("hostile-fill", &["fill"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn root_neighbour_plants_links() {
    root_neighbour("hostile-links", &["links"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn root_neighbour_lies_about_itself() {
    root_neighbour("hostile-lies", &["lies"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn root_neighbour_does_all_it_can() {
    root_neighbour("hostile-all", &["bell", "links", "fill"]);
}

//! Tests chains with hooks: each container starts only when the previous container is Ready.

use crate::clock::eventually;
use crate::cluster::requests_of;
use crate::orders::{chain, chain_containers};
use crate::pod::{Pod, server};
use crate::scene::Scene;
use std::thread::sleep;
use std::time::Duration;

const MET: &str = "released: all conditions are met";

#[test]
#[ignore = "needs a cluster: make e2e"]
fn chain_of_three_starts_in_order() {
    let scene = Scene::shared("chain");
    scene.grant_pod_access();
    let run = scene.create(&chain("chain", "1500ms"));
    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for gated in &lives[..2] {
        assert_eq!(gated.last_message(), MET, "{}", gated.name);
    }
    for name in ["db", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
        assert_eq!(up.podgate_state(name), Some("Ready"), "{name}");
    }
    assert_eq!(up.annotation("sandbox.podgate.io/order"), Some("db,api,web"));
}

/// `db` takes longer to become ready than any of the kubelet's probe periods or back-offs.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_waits_for_a_slow_container() {
    let scene = Scene::shared("slow-db");
    scene.grant_pod_access();
    let [db, api, web] = chain_containers("14s", &[]);
    let run = scene.create(&Pod::new("slow-db", [db.args(&["--listen-after", "11s"]), api, web]));
    if crate::cluster::is_test_cluster() {
        // While the hook waits, the termination message gives the reason. If the container dies, `kubectl describe`
        // shows the message. The hook clears the message before returning.
        let why = "podgate post-start: db: waiting for db=Ready (now Started)";
        eventually("the hook reports the reason", 60, || run.termination_message("db").filter(|words| words == why));
        run.wait_until_up();
        assert_eq!(run.termination_message("db").as_deref(), Some(""));
    }
    run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    assert_eq!(lives[0].last_message(), MET);
    let waited = lives[0].waited_ms().expect("a waiting time in the log");
    // On a slow machine, the hook starts seconds after its container, and then waits for less time.
    assert!(waited >= 1_000, "the hook waited {waited} ms");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_without_a_probe_counts_as_ready() {
    let scene = Scene::shared("no-probe");
    scene.grant_pod_access();
    let containers = [server("db").hook(&[]), server("api").hook(&[]), server("web").http(8003)];
    let run = scene.create(&Pod::new("no-probe", containers));
    let up = run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for gated in &lives[..2] {
        assert_eq!((gated.last_message(), up.podgate_state(&gated.name)), (MET, Some("Ready")), "{}", gated.name);
    }
}

/// For the start of three containers, the sidecar sends one watch, one read and 2 to 4 patches.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn start_needs_few_api_requests() {
    let scene = Scene::shared("requests");
    if !Scene::can_inject_faults("requests") {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&chain("requests", "1500ms"));
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    // Wait, so that the log also shows requests that an idle sidecar must not send.
    sleep(Duration::from_secs(3));
    let requests = requests_of(&scene.namespace);
    let count = |verb: &str| requests.iter().filter(|request| request.verb == verb).count();
    let (patches, watches, gets) = (count("patch"), count("watch"), count("get"));
    scene.report(&format!("{patches} patches, {watches} watches, {gets} gets"));
    assert!((2..=4).contains(&patches), "{requests:?}");
    assert!(watches <= 1 && gets <= 1 && requests.len() == patches + watches + gets, "{requests:?}");
    assert!(requests.iter().all(|request| (200..300).contains(&request.code)), "{requests:?}");
}

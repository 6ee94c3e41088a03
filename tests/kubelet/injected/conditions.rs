//! Tests of `check.podgate.io`, `ready.podgate.io` and `podgate.io/on-dependency-restart`.

use super::{apply_injected, create_injected};
use crate::cluster::ROOT;
use crate::pod::{Pod, server};
use crate::scene::{FollowedPod, Scene};

#[test]
#[ignore = "needs a cluster: make e2e"]
fn containers_wait_for_a_file_and_a_socket() {
    let scene = apply_injected("inj-conditions", "conditions.yaml", &[]);
    let run = scene.follow("conditions");
    let up = run.wait_until_up();
    for name in ["podgate", "reader", "client", "socket", "writer"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    // The kubelet reports a container without a readinessProbe as ready at once, but podgate waits for the socket.
    run.assert_order(&["socket", "client"]);
    run.assert_order(&["writer", "reader"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn follower_restarts_with_its_provider() {
    let scene = apply_injected("inj-follow", "conditions.yaml", &[]);
    assert_follower_restarts(&scene, "follow");
    assert_follower_restarts(&scene, "follow-native");
}

fn assert_follower_restarts(scene: &Scene, pod: &str) {
    let run = scene.follow(pod);
    let names = ["provider", "follower"];
    let again = run.watch.wait_until("both have restarted", 120, |seen| {
        names.iter().all(|name| seen.kubelet_status(name)["restartCount"] == 1) && seen.is_up()
    });
    let end = &again.kubelet_status("follower")["lastState"]["terminated"];
    assert_eq!(end["exitCode"], 69, "{end}");
    let message = end["message"].as_str().unwrap_or_default();
    assert!(message.contains("provider was restarted"), "{message}");
    // The gate of the restarted `follower` must have waited for the restarted `provider`.
    run.assert_order(&names);
    assert_eq!(again.kubelet_status("podgate")["restartCount"], 0);
}

/// The kubelet itself counts the delays of probes from the start of the gate. It would then kill `cache`, and `web` would
/// start too early.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn delays_of_probes_count_from_the_opening_of_the_gate() {
    let scene = apply_injected("inj-probes", "probes.yaml", &[]);
    let run = scene.follow("probes");
    assert_delays(&run);
}

fn assert_delays(run: &FollowedPod<'_>) {
    let up = run.wait_until_up();
    for name in ["db", "cache", "api", "web"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    let lives = run.assert_order(&["db", "cache", "api", "web"]);
    // The delay of 5 s, and three passes in periods of 2 s.
    let later = lives[3].start_time() - lives[2].start_time();
    assert!(later >= 8_900.0, "web started {later:.0} ms after api");
    run.scene.report(&format!("web started {later:.0} ms after api"));
}

/// `app` fails if it starts before `mounter` has mounted a file system into the volume that both use.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_waits_for_a_mount() {
    let scene = Scene::shared("inj-mount");
    scene.grant_pod_access();
    create_injected(&scene, &format!("{ROOT}/tests/kubelet/injected/mount.yaml"), &[]);
    let up = scene.follow("mounted").wait_until_up();
    for name in ["podgate", "mounter", "app"] {
        assert_eq!(up.kubelet_status(name)["restartCount"], 0, "{name}");
    }
    let since = |name: &str| up.kubelet_status(name)["state"]["running"]["startedAt"].clone();
    scene.report(&format!("mounter since {}, app since {}", since("mounter"), since("app")));
}

/// `worker` waits for requests to `proxy` and `cart`, which have no probe, and for another Pod.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_waits_for_another_pod() {
    let scene = Scene::shared("inj-outside");
    scene.grant_pod_access();
    let scheduler = scene.create(&Pod::new("scheduler", [server("scheduler").http(8786).ready_after("12s")]));
    let address =
        scheduler.watch.wait_until("the scheduler has an address", 60, |seen| seen.pod["status"]["podIP"].is_string());
    let address = address.pod["status"]["podIP"].as_str().expect("an address").to_owned();
    let manifest = std::fs::read_to_string(format!("{ROOT}/tests/kubelet/injected/outside.yaml")).expect("the file");
    let path = format!("{}/outside.yaml", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, manifest.replace("ADDRESS", &address)).expect("the file");
    create_injected(&scene, &path, &[]);
    let run = scene.follow("outside");
    run.wait_until_up();
    run.assert_order(&["cart", "worker"]);
    let worker = &run.assert_order(&["proxy", "worker"])[1];
    let waited = worker.start_time() - scheduler.log("scheduler").ready_time();
    assert!(waited >= 0.0, "order broken: worker started {:.0} ms before the scheduler was ready", -waited);
    scene.report(&format!("worker started {waited:.0} ms after the scheduler was ready"));
}

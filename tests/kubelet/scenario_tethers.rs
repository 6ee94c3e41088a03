//! Tests of tethers. With a tether, the board shows the exit of a container's process without the API server and the
//! kubelet. A sidecar without permission to read its Pod detects an exit only by a tether.

use crate::clock::{eventually, wall_ms};
use crate::cluster::BUSYBOX_IMAGE;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use podgate::core::annotations;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::Duration;

/// Returns the state of `container` on the board of the sidecar with this pid.
fn state_on_board(sidecar: u32, container: &str) -> Option<String> {
    let text = std::fs::read(format!("/proc/{sidecar}/root/podgate/annotations")).ok()?;
    annotations::read(&text, |_| true).ok()?.remove(&format!("status.podgate.io/{container}"))
}

fn has_ended(sidecar: u32, container: &str) -> bool {
    state_on_board(sidecar, container).is_some_and(|state| state == "Failed" || state == "Completed")
}

/// Calls `stop` with the container's pid. Returns the time until the board shows the exit, in milliseconds.
fn time_until_board_shows_exit(run: &FollowedPod<'_>, container: &str, stop: impl FnOnce(Pid)) -> f64 {
    let sidecar = run.pid("podgate").expect("the sidecar runs");
    let pid = run.pid(container).and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("the container runs");
    assert!(!has_ended(sidecar, container));
    let begin = wall_ms();
    stop(pid);
    while !has_ended(sidecar, container) {
        assert!(wall_ms() - begin < 10_000.0, "{container} has exited, but the board does not show it");
        std::thread::sleep(Duration::from_micros(200));
    }
    wall_ms() - begin
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn board_shows_an_exit_without_the_kubelet() {
    let scene = Scene::shared("tethers");
    if !Scene::can_inject_faults("tethers") {
        return;
    }
    type AddTether = fn(Container) -> Container;
    let kinds: [(&str, AddTether); 3] = [
        ("exec", |container| container.gate(&[])),
        ("parent", |container| container.gate(&["--tether", "parent"])),
        ("hook", |container| container.hook(&["--tether"])),
    ];
    for (kind, add_tether) in kinds {
        for (how, signal) in [("killed", Signal::KILL), ("terminated", Signal::TERM), ("exits", Signal::USR1)] {
            let name = format!("{kind}-{how}");
            // When the parent is killed, the kernel releases the tether before the program ends and the program's port
            // closes. On a busy node, the sidecar could find the port still open and count the program as running. Only
            // the kubelet would then report the exit, so this `db` has no port.
            let db = if name == "parent-killed" { server("db") } else { server("db").http(8001) };
            let containers = [add_tether(db), server("web").http(8002)];
            let run = scene.create(&Pod::new(&name, containers));
            run.watch.wait_until("the Pod is Ready", 120, ObservedPod::is_ready);
            // Wait: some programs close inherited files at their start. Within 2 s (`EARLY_TETHER_DROP_WINDOW`) after
            // the gate has opened, the release of a tether therefore does not count as an exit.
            let life = run.log("db");
            eventually("db has run for 2.5 s", 10, || (wall_ms() - life.start_time() > 2500.0).then_some(()));
            let took = time_until_board_shows_exit(&run, "db", |pid| kill_process(pid, signal).expect("a signal"));
            scene.report(&format!("{kind}, {how}: {took:.1} ms"));
            crate::cluster::kubectl(&[
                "-n",
                &scene.namespace,
                "delete",
                "pod",
                &name,
                "--wait=false",
                "--grace-period=1",
            ]);
        }
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn board_shows_an_out_of_memory_kill_without_the_kubelet() {
    let scene = Scene::shared("oom");
    if !Scene::can_inject_faults("oom") {
        return;
    }
    let script = "sleep 4; exec tail /dev/zero";
    let eater = server("eater").gate(&[]).with(json!({"image": BUSYBOX_IMAGE, "args": ["sh", "-c", script],
        "resources": {"limits": {"memory": "24Mi"}}}));
    let containers = [eater, server("after").gate(&["--until", "eater=Exited"])];
    let run = scene.create(&Pod::new("oom", containers).with(json!({"spec": {"restartPolicy": "Never"}})));
    let seen = run.watch.wait_until("the kubelet reports the kill", 60, |seen| {
        seen.kubelet_status("eater")["state"]["terminated"]["reason"] == "OOMKilled"
    });
    let start = eventually("the container after starts", 30, || run.log("after").time_of("start"));
    scene.report(&format!("after started {:.0} ms before the kubelet reported the kill", seen.at - start));
    let sidecar = run.pid("podgate").expect("the sidecar runs");
    assert_eq!(state_on_board(sidecar, "eater").as_deref(), Some("Failed"));
}

/// A program that closes inherited files loses its tether. podgate must not report such a program as exited.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_that_closes_its_tether_counts_as_running() {
    let scene = Scene::shared("untethered");
    if !Scene::can_inject_faults("untethered") {
        return;
    }
    scene.grant_pod_access();
    let db = server("db").http(8001).args(&["--close-inherited"]).gate(&[]);
    let run = scene.create(&Pod::new("untethered", [db, server("web").http(8002).gate(&["--until", "db"])]));
    run.wait_until_up();
    let sidecar = run.pid("podgate").expect("the sidecar runs");
    assert_eq!(state_on_board(sidecar, "db").as_deref(), Some("Ready"));
    assert!(!podgate::edge::lock::is_tethered(
        std::path::Path::new(&format!("/proc/{sidecar}/root/podgate-self")),
        "db"
    ));
    run.signal("db", "KILL");
    run.watch.wait_until("the kubelet reports the exit", 120, |seen| seen.kubelet_status("db")["restartCount"] == 1);
    run.watch.wait_until("all is up again", 120, |seen| seen.is_up() && seen.kubelet_status("db")["restartCount"] == 1);
}

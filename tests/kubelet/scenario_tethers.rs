//! That a container's process is gone, however it ended, is on the board at once: with no API, and with no help of the kubelet.

use crate::clock::{eventually, wall_ms};
use crate::cluster::BUSYBOX_IMAGE;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use podgate::core::annotations;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::Duration;

/// The state of `container` on the board, as the sidecar with this process number has it.
fn on_the_board(sidecar: u32, container: &str) -> Option<String> {
    let text = std::fs::read(format!("/proc/{sidecar}/root/podgate/annotations")).ok()?;
    annotations::read(&text, |_| true).ok()?.remove(&format!("status.podgate.io/{container}"))
}

fn has_ended(sidecar: u32, container: &str) -> bool {
    on_the_board(sidecar, container).is_some_and(|state| state == "Failed" || state == "Completed")
}

/// Milliseconds from `end` to the board saying so.
fn until_the_board_says_so(run: &FollowedPod<'_>, container: &str, end: impl FnOnce(Pid)) -> f64 {
    let sidecar = run.pid("podgate").expect("the sidecar runs");
    let pid = run.pid(container).and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).expect("it runs");
    assert!(!has_ended(sidecar, container));
    let begin = wall_ms();
    end(pid);
    while !has_ended(sidecar, container) {
        assert!(wall_ms() - begin < 10_000.0, "{container} is gone, and the board does not say so");
        std::thread::sleep(Duration::from_micros(200));
    }
    wall_ms() - begin
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn an_end_shows_on_the_board_at_once() {
    let scene = Scene::shared("tethers");
    if !Scene::can_inject_faults("tethers") {
        return;
    }
    scene.grant_pod_access();
    type Placed = fn(Container) -> Container;
    let kinds: [(&str, Placed); 3] = [
        ("exec", |container| container.gate(&[])),
        ("parent", |container| container.gate(&["--tether", "parent"])),
        ("hook", |container| container.hook(&["--tether"])),
    ];
    for (kind, placed) in kinds {
        for (how, signal) in [("killed", Signal::KILL), ("told-to-end", Signal::TERM), ("exits", Signal::USR1)] {
            let name = format!("{kind}-{how}");
            let containers = [placed(server("db").http(8001)), server("web").http(8002)];
            let run = scene.create(&Pod::new(&name, containers));
            run.wait_until_up();
            // Within 2 s of the gate's opening a drop may be that of a program which closes what it inherits.
            let life = run.log("db");
            eventually("db has run for a while", 10, || (wall_ms() - life.start_time() > 2500.0).then_some(()));
            let took = until_the_board_says_so(&run, "db", |pid| kill_process(pid, signal).expect("a signal"));
            scene.report(&format!("{kind}, {how}: {took:.1} ms"));
            // 10 ms on a machine that is not busy with other tests.
            assert!(took < 500.0, "{name}: {took:.0} ms");
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
fn one_that_is_out_of_memory_is_gone_at_once() {
    let scene = Scene::shared("oom");
    if !Scene::can_inject_faults("oom") {
        return;
    }
    scene.grant_pod_access();
    let script = "sleep 4; exec tail /dev/zero";
    let eater = server("eater").gate(&[]).with(json!({"image": BUSYBOX_IMAGE, "args": ["sh", "-c", script],
        "resources": {"limits": {"memory": "24Mi"}}}));
    let containers = [eater, server("after").gate(&["--until", "eater=Exited"])];
    let run = scene.create(&Pod::new("oom", containers).with(json!({"spec": {"restartPolicy": "Never"}})));
    let seen = run.watch.wait_until("the kubelet says so too", 60, |seen| {
        seen.kubelet_status("eater")["state"]["terminated"]["reason"] == "OOMKilled"
    });
    let start = eventually("after starts", 30, || run.log("after").time_of("start"));
    scene.report(&format!("after started {:.0} ms before the kubelet's word came", seen.at - start));
    assert_eq!(
        run.watch.last().and_then(|seen| seen.podgate_state("eater").map(str::to_owned)).as_deref(),
        Some("Failed")
    );
}

/// A program that closes what it inherits holds no tether, and is not taken for dead.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn one_that_closes_what_it_inherits_lives() {
    let scene = Scene::shared("untethered");
    if !Scene::can_inject_faults("untethered") {
        return;
    }
    scene.grant_pod_access();
    let db = server("db").http(8001).args(&["--close-inherited"]).gate(&[]);
    let run = scene.create(&Pod::new("untethered", [db, server("web").http(8002).gate(&["--until", "db"])]));
    run.wait_until_up();
    let sidecar = run.pid("podgate").expect("the sidecar runs");
    assert_eq!(on_the_board(sidecar, "db").as_deref(), Some("Ready"));
    assert!(!podgate::edge::tether::is_held(std::path::Path::new(&format!("/proc/{sidecar}/root/podgate-self")), "db"));
    run.signal("db", "KILL");
    run.watch.wait_until("its end is known by the kubelet's word", 30, |seen| {
        seen.kubelet_status("db")["restartCount"] == 1
    });
    run.watch.wait_until("all is up again", 60, |seen| seen.is_up() && seen.kubelet_status("db")["restartCount"] == 1);
}

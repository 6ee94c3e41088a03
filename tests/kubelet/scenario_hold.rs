//! Tests hold mode: the kubelet does not create a container until its gate opens. The module `guarantees` tests the
//! faults that also apply to the other modes.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{ApiServerStopped, kubectl, restart_kubelet, run_script, try_kubectl};
use crate::incarnation_log::IncarnationLog;
use crate::pod::{Pod, server};
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// The kubelet's reason for a held container.
const HELD: &str = "CreateContainerConfigError";

/// The kubelet's first back-off, in milliseconds. A release takes less time than that, even on a busy machine.
const FIRST_BACK_OFF_MS: f64 = 10_000.0;

fn waiting_reason<'a>(seen: &'a ObservedPod, container: &str) -> &'a str {
    seen.kubelet_status(container)["state"]["waiting"]["reason"].as_str().unwrap_or_default()
}

fn is_held(seen: &ObservedPod, container: &str) -> bool {
    waiting_reason(seen, container) == HELD
}

/// Returns a Pod in which `api` is held until `db` is Ready. `db` becomes Ready on a signal.
fn held_pod(name: &str) -> Pod {
    let db = server("db").http(8001).args(&["--ready-on-signal"]);
    Pod::new(name, [db, server("api").http(8002).held(&["--until", "db"])])
}

/// Starts the Pod of [`held_pod`] with API permissions. Returns when the kubelet holds `api`.
fn begin_held<'a>(scene: &'a Scene, name: &str) -> FollowedPod<'a> {
    scene.grant_pod_access();
    let run = scene.create(&held_pod(name));
    run.watch.wait_until("the kubelet holds api", 90, |seen| is_held(seen, "api"));
    run
}

pub(crate) fn make_ready(run: &FollowedPod) {
    eventually("db listens", 60, || run.log("db").time_of("listening"));
    run.signal("db", "USR2");
}

/// Returns the time from Ready of `db` to the start of `api`, in milliseconds.
fn release_time(run: &FollowedPod) -> f64 {
    let started = eventually("api starts", 120, || run.log("api").time_of("start"));
    started - run.log("db").ready_time()
}

/// Returns the path on the node of the directory with the gate files.
fn gate_directory(run: &FollowedPod) -> PathBuf {
    let uid = kubectl(&["-n", &run.scene.namespace, "get", "pod", &run.pod, "-o", "jsonpath={.metadata.uid}"]);
    let kubelet = PathBuf::from(run_script(&["kubeconfig"]).trim()).with_file_name("kubelet");
    let volumes = kubelet.join("pods").join(uid.trim()).join("volumes");
    volumes.join("kubernetes.io~empty-dir/podgate-hold/keys")
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn chain_of_held_containers_starts_in_order() {
    let scene = Scene::shared("hold-chain");
    scene.grant_pod_access();
    let db = server("db").http(8001).ready_after("3s");
    let api = server("api").http(8002).ready_after("1s").held(&["--until", "db"]);
    let run = scene.create(&Pod::new("chain", [db, api, server("web").http(8003).held(&["--until", "api"])]));
    run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    for pair in lives.windows(2) {
        let took = pair[1].start_time() - pair[0].ready_time();
        assert!(took < FIRST_BACK_OFF_MS, "{} started {took:.0} ms after {} was Ready", pair[1].name, pair[0].name);
    }
}

/// A container that was held for 90 s must start soon after its release. A future kubelet could put held containers
/// into a back-off (kubernetes#142033), which would be 80 s long by then.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_held_for_90_s_has_no_back_off() {
    let scene = Scene::shared("hold-long");
    let run = begin_held(&scene, "long");
    sleep(Duration::from_secs(90));
    make_ready(&run);
    let took = release_time(&run);
    assert!((0.0..12_000.0).contains(&took), "released {took:.0} ms after Ready");
    scene.report(&format!("released {took:.0} ms after Ready"));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_kubelet_and_runtime_killed_while_a_container_is_held() {
    let Some(scene) = Scene::exclusive("hold-kill") else { return };
    let run = begin_held(&scene, "killed");
    // Restart containerd first, because a kubelet exits if it starts while the runtime is down.
    run_script(&["restart-containerd", "--kill"]);
    run_script(&["restart-kubelet", "--kill"]);
    sleep(Duration::from_secs(4));
    assert_eq!(run.log("api").time_of("start"), None, "order broken: api started while db was not Ready");
    make_ready(&run);
    let took = release_time(&run);
    assert!((0.0..FIRST_BACK_OFF_MS).contains(&took), "released {took:.0} ms after Ready");
    scene.report(&format!("released {took:.0} ms after Ready"));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn restart_is_immediate_while_the_conditions_hold() {
    if !Scene::can_inject_faults("hold-restart") {
        return;
    }
    let scene = Scene::shared("hold-restart");
    let run = begin_held(&scene, "restart");
    make_ready(&run);
    run.wait_until_up();
    let (killed, seen) = (wall_ms(), run.watch.len());
    run.signal("api", "KILL");
    let again = run.wait_for_start("api", 2);
    run.watch
        .wait_from(seen, "api is up again", 60, |seen| seen.is_up() && seen.kubelet_status("api")["restartCount"] == 1);
    assert!(!run.watch.history()[seen..].iter().any(|seen| is_held(seen, "api")), "the kubelet held api again");
    scene.report(&format!("api restarted after {:.0} ms", again - killed));
}

/// A container that restarts while its predecessor is down is held again.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restart_is_held_while_a_predecessor_is_down() {
    if !Scene::can_inject_faults("hold-again") {
        return;
    }
    let scene = Scene::shared("hold-again");
    let run = begin_held(&scene, "again");
    make_ready(&run);
    run.wait_until_up();
    let seen = run.watch.len();
    let killed = wall_ms();
    run.signal("db", "KILL");
    let gate = gate_directory(&run).join("api");
    let closed = eventually("the gate is closed", 30, || (!gate.exists()).then(wall_ms));
    scene.report(&format!("the gate closed {:.0} ms after the end of db", closed - killed));
    run.signal("api", "KILL");
    run.watch.wait_from(seen, "the kubelet holds api", 60, |s| is_held(s, "api"));
    sleep(Duration::from_secs(5));
    assert_eq!(
        crate::cluster::incarnations(&scene.namespace, "again").iter().filter(|i| i.container == "api").count(),
        1
    );
    make_ready(&run);
    let ready = eventually("db is Ready again", 60, || {
        let log = run.log("db");
        log.time_of("ready").filter(|ready| *ready > closed)
    });
    let again = run.wait_for_start("api", 2);
    assert!(again > ready, "order broken: api started {:.0} ms before db was Ready", ready - again);
    scene.report(&format!("api restarted {:.0} ms after db was Ready again", again - ready));
}

/// A container that crashes just after its creation restarts while its predecessor is Ready.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn early_crash_does_not_break_the_order() {
    let scene = Scene::shared("hold-crash");
    scene.grant_pod_access();
    let db = server("db").http(8001).ready_after("2s");
    let api = server("api").args(&["--exit-after", "1s", "--exit-code", "3"]).held(&["--until", "db"]);
    let run = scene.create(&Pod::new("crash", [db, api]));
    let first = run.wait_for_start("api", 1);
    let second = run.wait_for_start("api", 2);
    assert!(first > run.log("db").ready_time(), "order broken");
    scene.report(&format!("the second start came {:.0} ms after the first", second - first));
    run.watch.wait_until("api is in back-off", 60, |s| waiting_reason(s, "api") == "CrashLoopBackOff");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn predecessor_with_an_exec_probe_releases_a_held_container() {
    let scene = Scene::shared("hold-exec");
    scene.grant_pod_access();
    let probe = json!({"exec": {"command": ["/testserver", "check", "/tmp/ready"]}});
    let db = server("db").http(8001).args(&["--ready-after", "3s", "--touch", "/tmp/ready"]).probe(probe);
    let run = scene.create(&Pod::new("exec", [db, server("api").http(8002).held(&["--until", "db"])]));
    run.wait_until_up();
    run.assert_order(&["db", "api"]);
}

/// Without permission to patch its Pod, the sidecar only opens the gate. The kubelet creates the container at its own
/// next retry.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn release_without_permissions_takes_longer() {
    let scene = Scene::shared("hold-rights");
    let run = scene.create(&held_pod("rights"));
    run.watch.wait_until("the kubelet holds api", 90, |seen| is_held(seen, "api"));
    sleep(Duration::from_secs(8));
    make_ready(&run);
    let took = release_time(&run);
    assert!(took >= 0.0, "order broken: released {:.0} ms before Ready", -took);
    scene.report(&format!("released {took:.0} ms after Ready"));
}

/// The API server is down while `db` becomes Ready.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_api_server_away_for_a_part_of_the_start() {
    let Some(scene) = Scene::exclusive("hold-api") else { return };
    let run = begin_held(&scene, "api-away");
    let away = ApiServerStopped::stop();
    make_ready_by_pid(&run);
    sleep(Duration::from_secs(4));
    drop(away);
    let back = wall_ms();
    run.wait_until_up();
    run.assert_order(&["db", "api"]);
    scene.report(&format!("api started {:+.0} ms after the API server was back", run.log("api").start_time() - back));
}

/// Signals `db` without the API server.
fn make_ready_by_pid(run: &FollowedPod) {
    run_script(&["kill-container", &run.scene.namespace, &run.pod, "db", "USR2"]);
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn forced_deletion_while_held_leaves_nothing() {
    let scene = Scene::shared("hold-force");
    let run = begin_held(&scene, "forced");
    let deleted = wall_ms();
    kubectl(&["-n", &scene.namespace, "delete", "pod", "forced", "--force", "--grace-period=0"]);
    eventually("the containers are gone", 60, || {
        let left = crate::cluster::incarnations(&scene.namespace, "forced");
        left.iter().all(|i| i.finished.is_some()).then_some(())
    });
    assert!(!crate::cluster::incarnations(&scene.namespace, "forced").iter().any(|i| i.container == "api"));
    assert!(try_kubectl(&["-n", &scene.namespace, "get", "pod", "forced"]).is_err());
    drop(run);
    scene.report(&format!("gone {:.1} s after the deletion", (wall_ms() - deleted) / 1000.0));
}

/// A kubelet older than 1.35 leaves the variable `PODGATE_HOLD` empty. This kubelet does not accept an empty value in
/// the file, so this test sets the variable itself.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn empty_variable_does_not_start_the_container() {
    let scene = Scene::shared("hold-empty");
    scene.grant_pod_access();
    let mut pod = held_pod("empty").json();
    let env = &mut pod["spec"]["containers"][1]["env"];
    assert_eq!(env[0]["name"], "PODGATE_HOLD");
    *env = json!([{"name": "PODGATE_HOLD", "value": ""}]);
    let run = scene.follow("empty");
    crate::cluster::create(&scene.namespace, &pod.to_string());
    let seen = run.watch.wait_until("the kubelet rejects the empty value", 60, |seen| {
        let message = &seen.kubelet_status("api")["state"]["waiting"]["message"];
        message.as_str().is_some_and(|message| message.contains("missing value for PODGATE_HOLD"))
    });
    scene.report(&seen.kubelet_status("api")["state"]["waiting"].to_string());
    sleep(Duration::from_secs(3));
    assert!(!crate::cluster::incarnations(&scene.namespace, "empty").iter().any(|i| i.container == "api"));
}

/// If the kubelet does not see the sidecar's files, nothing may start. This can happen if the sidecar runs in a virtual
/// machine. In this test, a mount hides a directory of the volume from the kubelet.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hidden_volume_stops_the_sidecar() {
    if !Scene::can_inject_faults("hold-hidden") {
        return;
    }
    let scene = Scene::shared("hold-hidden");
    scene.grant_pod_access();
    let mut pod = held_pod("hidden").json();
    let image = crate::cluster::BUSYBOX_IMAGE;
    let first = json!({"name": "first", "image": image, "command": ["sleep", "10"]});
    pod["spec"]["initContainers"].as_array_mut().expect("a list").insert(0, first);
    let run = scene.follow("hidden");
    crate::cluster::create(&scene.namespace, &pod.to_string());
    run.wait_for_start("first", 1);
    let canary = gate_directory(&run).join(".canary");
    let in_kubelet = |arguments: &[&str]| {
        // Use the oldest process: a child of the kubelet has the same name until the child runs another program.
        let kubelet = Command::new("pgrep").args(["-o", "-x", "kubelet"]).output().expect("pgrep");
        let kubelet = String::from_utf8(kubelet.stdout).expect("a number");
        let inside = ["--target", kubelet.trim(), "--mount"];
        let status = Command::new("nsenter").args(inside).args(arguments).arg(&canary).status().expect("nsenter(1)");
        assert!(status.success(), "{arguments:?}");
    };
    in_kubelet(&["mkdir", "-p", "-m", "777"]);
    in_kubelet(&["mount", "-t", "tmpfs", "-o", "mode=777", "hidden"]);
    let line = eventually("the sidecar reports the hidden volume", 60, || {
        let log = try_kubectl(&["-n", &scene.namespace, "logs", "hidden", "-c", "podgate"]).unwrap_or_default();
        log.lines().find(|line| line.contains("see different volumes")).map(str::to_owned)
    });
    scene.report(&line);
    sleep(Duration::from_secs(5));
    for name in ["db", "api"] {
        assert_eq!(run.log(name).time_of("start"), None, "order broken: {name} started without the sidecar");
    }
    in_kubelet(&["umount", "-l"]);
}

/// Returns a Deployment whose containers have no `command`, with one annotation.
fn deployment(order: &str) -> Value {
    let container = |name: &str, port: u16, args: &[&str]| {
        let port_text = port.to_string();
        let arguments = [&["--http", port_text.as_str()], args].concat();
        json!({"name": name, "image": crate::cluster::TESTSERVER_IMAGE, "args": arguments,
            "readinessProbe": {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1}})
    };
    let template = json!({
        "metadata": {"labels": {"app": "shop"}, "annotations": {"podgate.io/order": order}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [
            container("web", 8003, &[]), container("api", 8002, &["--ready-after", "1s"]),
            container("db", 8001, &["--ready-on-signal"])]},
    });
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": template}})
}

/// The command line injects a Deployment of three containers without `command`. The test kills the kubelet, the sidecar
/// and `db` in the middle of the start.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn alone_deployment_without_commands_survives_every_kill() {
    let Some(scene) = Scene::exclusive("hold-deploy") else { return };
    scene.grant_pod_access();
    let mut manifest = deployment("db, api, web");
    let template = &manifest["spec"]["template"];
    let options = podgate::order::inject::Options::new(crate::cluster::IMAGE);
    let injected = podgate::order::inject::inject(template, &options, &podgate::order::plan::KnownFacts::default());
    manifest["spec"]["template"] = injected.expect("the order is valid").value;
    crate::cluster::create(&scene.namespace, &manifest.to_string());
    let name = eventually("the Deployment has a Pod", 60, || {
        let name = kubectl(&["-n", &scene.namespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]);
        (!name.trim().is_empty()).then(|| name.trim().to_owned())
    });
    let run = scene.follow(&name);
    run.watch.wait_until("the kubelet holds api", 90, |seen| is_held(seen, "api"));
    restart_kubelet();
    run.signal("podgate", "KILL");
    run.wait_for_start("podgate", 2);
    let killed = wall_ms();
    run.signal("db", "KILL");
    run.wait_for_start("db", 2);
    let early: Vec<IncarnationLog> = ["api", "web"].map(|name| run.log(name)).into_iter().collect();
    assert!(early.iter().all(|log| log.time_of("start").is_none()), "order broken: {early:?}");
    // `make_ready` could read the log of the earlier db, and a signal before "listening" is lost.
    eventually("the new db listens", 60, || run.log("db").time_of("listening").filter(|at| *at > killed));
    make_ready(&run);
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
}

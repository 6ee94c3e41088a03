//! Runs cases of Kubernetes' own end-to-end tests with ordered Pods: native sidecars and the Pod's lifecycle.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{CLOCK_IMAGE, TESTSERVER_IMAGE, create, kubectl, minor_version, restart_kubelet};
use crate::node_logs::NodeLogs;
use crate::orders::{chain_containers, gated_chain_containers};
use crate::pod::{Pod, merge, server};
use crate::scenario_hold::make_ready;
use crate::scenario_rounds::{start_twice, web_that_restarts_all};
use crate::scenario_stop::{assert_stop_order, delete, grace, log_of, summary};
use crate::scene::{FollowedPod, Scene, skip};
use crate::watch::ObservedPod;
use serde_json::{Value, json};
use std::time::Duration;

const NAMES: [&str; 3] = ["db", "api", "web"];

/// Deletes Pods that never become Ready, in different phases of the start. Their grace period is 3 s. One program of
/// each Pod ignores SIGTERM, so the kubelet kills it at the end of the grace period.
///
/// Runs alone, because on a busy node the kubelet needs more time to end a Pod.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn starting_pod_is_gone_in_5_s_alone() {
    let Some(scene) = Scene::exclusive("gone") else { return };
    scene.grant_pod_access();
    let stubborn = |db: crate::pod::Container| db.args(&["--ignore-term"]);
    let [db, api, web] = gated_chain_containers("10m", &[]);
    let gated = Pod::new("gone-gates", [stubborn(db), api, web]);
    let [db, api, web] = chain_containers("10m", &[]);
    let hooked = Pod::new("gone-hooks", [stubborn(db), api, web]);
    let held = [stubborn(server("db").http(8001).ready_after("10m")), server("api").held(&["--until", "db"])];
    let held = (minor_version() >= 35).then(|| Pod::new("gone-held", held));
    let mut pods: Vec<_> = [gated, hooked].into_iter().chain(held).map(|pod| (pod.json(), "db")).collect();
    // An init container runs after podgate's sidecar, and before the ordered containers.
    let mut initializes = Pod::new("gone-init", gated_chain_containers("0s", &[])).json();
    let init = json!({"name": "migrate", "image": TESTSERVER_IMAGE, "args": ["--ignore-term"],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    initializes["spec"]["initContainers"].as_array_mut().expect("init containers").push(init);
    pods.push((initializes, "migrate"));
    let start = |(mut pod, name): (Value, &str)| {
        pod["spec"]["terminationGracePeriodSeconds"] = json!(3);
        let run = scene.follow(pod["metadata"]["name"].as_str().expect("a name"));
        create(&scene.namespace, &pod.to_string());
        run.wait_for_start(name, 1);
        run
    };
    let runs: Vec<_> = pods.into_iter().map(start).collect();
    // The kubelet syncs a Pod after changes: in the first seconds often, and after podgate's patch of `Started`, which
    // comes after 5 s (`MINOR_BATCH_WINDOW`). Before each sync, the kubelet waits until it has listed the containers
    // again, once a second. This delays a deletion by up to 2 s, also without podgate.
    std::thread::sleep(Duration::from_secs(8));
    // On 1.34 and 1.35, a Pod with a running hook ends a second later, after one more list. Another second is for a
    // machine whose hypervisor takes processor time away.
    let limit = if minor_version() < 36 { 7.0 } else { 6.0 };
    for run in runs {
        let took = run.delete() / 1000.0;
        scene.report(&format!("{}: gone {took:.2} s after the deletion", run.pod));
        assert!(took < limit, "{}: {took}", run.pod);
    }
}

/// The user's preStop command of `api` never returns. podgate ends the command in time for `db` to stop after `api`.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pre_stop_command_that_does_not_return_keeps_the_stop_order() {
    let scene = Scene::shared("stop-hangs");
    if !Scene::can_inject_faults("stop-hangs") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("0s", &[]);
    let containers = [
        db.pre_stop(&["--until", "api", "--grace", "12s"]),
        api.pre_stop(&["--until", "web", "--grace", "6s", "--then", r#"["/testserver"]"#]),
        web,
    ];
    let run = scene.create(&Pod::new("stop-hangs", containers).with(grace(20)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-hangs");
    run.wait_until_up();
    let begin = wall_ms();
    let (lives, took) = delete(&run, &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "api", "db"], begin), took / 1000.0));
    assert_stop_order(&lives, &["web", "api", "db"]);
    assert_eq!(run.killed(), "", "all must end within the grace period");
    let waited = log_of(&lives, "api").expect_time_of("term") - log_of(&lives, "web").expect_time_of("term");
    assert!(waited >= 4000.0, "the command of api had only {waited:.0} ms");
}

fn set_image(run: &FollowedPod, container: &str) {
    let image = format!("{container}={CLOCK_IMAGE}");
    kubectl(&["-n", &run.scene.namespace, "set", "image", &format!("pod/{}", run.pod), &image]);
}

/// If a container's image changes, the kubelet ends the container and starts it again, even while the Pod starts. While
/// the Pod terminates, the kubelet ends the container but does not start it again.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn image_update_during_start_and_termination_keeps_the_order() {
    let scene = Scene::shared("image-update");
    if !Scene::can_inject_faults("image-update") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("0s", &[]);
    let containers = [
        db.args(&["--ready-on-signal"]).pre_stop(&["--until", "api", "--grace", "9s"]),
        api.pre_stop(&["--until", "web", "--grace", "5s"]),
        web.args(&["--ignore-term"]),
    ];
    let run = scene.create(&Pod::new("image-update", containers).with(grace(12)));
    let logs = NodeLogs::follow(&scene.namespace, "image-update");
    run.watch.wait_until("api waits for db", 60, |seen| {
        seen.podgate_state("db") == Some("Started") && seen.podgate_state("api") == Some("Waiting")
    });
    ["db", "api"].iter().for_each(|name| set_image(&run, name));
    run.watch.wait_until("db and api run with the new image", 120, |seen| {
        let updated = |status: &Value| status["image"] == CLOCK_IMAGE && status["state"]["running"].is_object();
        ["db", "api"].iter().all(|name| updated(seen.kubelet_status(name)))
    });
    make_ready(&run);
    let up = run.wait_until_up();
    run.assert_order(&NAMES);
    let restarts = NAMES.map(|name| up.kubelet_status(name)["restartCount"].clone());
    assert_eq!(restarts, [1, 1, 0], "the restart counts of {NAMES:?}");

    let deletion = std::thread::scope(|scope| {
        let deletion = scope.spawn(|| delete(&run, &logs));
        run.watch.wait_until("the pod terminates", 30, |seen| seen.pod["metadata"]["deletionTimestamp"].is_string());
        set_image(&run, "web");
        deletion.join().expect("the deletion")
    });
    let (lives, took) = deletion;
    scene.report(&format!("pod gone {:+.2}", took / 1000.0));
    assert_stop_order(&lives, &["api", "db"]);
    assert_eq!(lives.iter().filter(|life| life.name == "web").count(), 1, "web has started again: {lives:?}");
}

/// The test restarts the kubelet while the kubelet restarts all containers. The volumes stay, and no preStop hook runs.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restart_of_all_containers_survives_a_kubelet_restart_alone() {
    let Some(scene) = Scene::exclusive("restart-all-kubelet") else { return };
    if minor_version() < 36 {
        skip("restart-all-kubelet", "RestartAllContainers needs Kubernetes 1.36");
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("2s", &[]);
    let said = r#"["/testserver","say","then"]"#;
    let containers = [db.pre_stop(&["--until", "api", "--then", said]), api, web_that_restarts_all(web)];
    let run = scene.create(&Pod::new("restart-all-kubelet", containers));
    let logs = NodeLogs::follow(&scene.namespace, "restart-all-kubelet");
    // The volumes stay, so the new sidecar must continue the revision numbers. `start_twice` checks the numbers.
    start_twice(&run, || {
        run.signal("web", "USR1");
        restart_kubelet();
    });
    let lives = logs.of_container("db");
    assert!(lives.len() >= 2 && lives.iter().all(|life| life.time_of("then").is_none()), "{lives:?}");
}

/// On 1.35 to 1.37, the kubelet reports a container that it replaced in one sync as started, and so as ready, until the
/// startup probe has run once (kubernetes#141155). A gate must not open on this status.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn inherited_ready_of_a_replaced_container_opens_no_gate() {
    let scene = Scene::shared("inherited");
    scene.grant_pod_access();
    let check = |file: &str| json!({"exec": {"command": ["/testserver", "check", file]}});
    let (mut startup, mut liveness) = (check("/tmp/ready"), check("/data/lives"));
    merge(&mut startup, json!({"periodSeconds": 10, "failureThreshold": 20}));
    merge(&mut liveness, json!({"periodSeconds": 1, "failureThreshold": 6}));
    let db = server("db").ready_after("12s").args(&["--touch", "/tmp/ready"]);
    let db = db.with(json!({"startupProbe": startup, "livenessProbe": liveness}));
    let mut pod = Pod::new("inherited", [db, server("api").gate(&["--until", "db"])]).json();
    let push = |list: &mut Value, item| list.as_array_mut().expect("a list").push(item);
    push(&mut pod["spec"]["volumes"], json!({"name": "data", "emptyDir": {}}));
    push(&mut pod["spec"]["containers"][0]["volumeMounts"], json!({"name": "data", "mountPath": "/data"}));
    let run = scene.follow("inherited");
    create(&scene.namespace, &pod.to_string());
    eventually("api starts", 60, || run.log("api").time_of("start"));
    let restarted = run.wait_for_start("db", 2);
    // With the inherited status, the liveness probe runs too. With this file, it passes in the new container.
    let pid = eventually("the new db runs", 20, || run.pid("db"));
    std::fs::write(format!("/proc/{pid}/root/data/lives"), "").expect("the volume");
    let replaced = |seen: &ObservedPod| seen.kubelet_status("db")["restartCount"] == 1;
    run.watch.wait_until("db is replaced", 60, replaced);
    let killed = wall_ms();
    run.signal("api", "KILL");
    let opened = eventually("the gate opens again", 60, || run.log("api").time_of("start").filter(|at| *at > killed));
    let history = run.watch.history();
    let inherited = history.iter().find(|seen| replaced(seen) && seen.kubelet_status("db")["ready"] == true);
    let ready = eventually("db is ready again", 60, || run.log("db").time_of("ready").filter(|at| *at > restarted));
    scene.report(&format!(
        "{} the kubelet reports the replaced db as ready, {:.1} s later db is ready, {:.1} s later api starts",
        run.pod,
        (ready - inherited.map_or(f64::NAN, |seen| seen.at)) / 1000.0,
        (opened - ready) / 1000.0
    ));
    let is_known = (35..=37).contains(&minor_version());
    assert!(!is_known || inherited.is_some_and(|seen| seen.at < ready), "the status is not inherited");
    assert!(opened >= ready, "api started {:.0} ms before db was ready", ready - opened);
}

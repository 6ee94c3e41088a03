//! Containers that stop in the reverse of the order in which they started.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{kubectl, try_kubectl};
use crate::incarnation_log::IncarnationLog;
use crate::node_logs::NodeLogs;
use crate::orders::gated_chain_containers;
use crate::pod::{Container, Pod, SidecarPlacement, server};
use crate::scene::Scene;
use serde_json::json;

fn grace(seconds: u32) -> serde_json::Value {
    json!({"spec": {"terminationGracePeriodSeconds": seconds}})
}

/// Deletes the pod, and gives what its containers said until the end, and how long it took, in milliseconds.
fn delete(scene: &Scene, pod: &str, logs: &NodeLogs) -> (Vec<IncarnationLog>, f64) {
    let begin = wall_ms();
    kubectl(&["-n", &scene.namespace, "delete", "pod", pod, "--wait=true", "--timeout=60s"]);
    let took = wall_ms() - begin;
    (logs.logs_with_ends(), took)
}

fn of<'a>(lives: &'a [IncarnationLog], name: &str) -> &'a IncarnationLog {
    lives.iter().rfind(|life| life.name == name).unwrap_or_else(|| panic!("{name} said nothing"))
}

fn summary(lives: &[IncarnationLog], names: &[&str], zero: f64) -> String {
    let one = |name: &&str| {
        let life = of(lives, name);
        let at = |ms: Option<f64>| ms.map_or("never".to_owned(), |ms| format!("{:+.2}", (ms - zero) / 1000.0));
        format!("{name} TERM {} gone {}", at(life.time_of("term")), at(life.end))
    };
    names.iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// Each of `names` was told to end only when the one before it was gone.
fn assert_one_after_the_other(lives: &[IncarnationLog], names: &[&str]) {
    for pair in names.windows(2) {
        let (user, provider) = (of(lives, pair[0]), of(lives, pair[1]));
        let gone = user.end.unwrap_or_else(|| panic!("{} never ended: {user:?}", user.name));
        let early = gone - provider.expect_time_of("term");
        assert!(early <= 0.0, "{} was told to end {early:.1} ms before {} was gone", provider.name, user.name);
    }
}

fn three_deep(name: &str, sidecar: SidecarPlacement, containers: [Container; 3]) {
    let scene = Scene::shared(name);
    if !Scene::can_inject_faults(name) {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&Pod::new(name, containers).sidecar(sidecar).with(grace(30)));
    let logs = NodeLogs::follow(&scene.namespace, name);
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let begin = wall_ms();
    let (lives, took) = delete(&scene, name, &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "api", "db"], begin), took / 1000.0));
    assert_one_after_the_other(&lives, &["web", "api", "db"]);
    assert!(took < 15_000.0, "it took {took:.0} ms: somebody waited for its grace period");
}

fn gated() -> [Container; 3] {
    let [db, api, web] = gated_chain_containers("500ms", &[]);
    [db.pre_stop(&["--until", "api"]), api.pre_stop(&["--until", "web"]), web]
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn stop_in_reverse_order() {
    three_deep("stop-reverse", SidecarPlacement::Native, gated());
}

/// The sidecar is told to end together with all others, and stays as long as it is needed.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn stop_in_reverse_order_with_a_first_container() {
    three_deep("stop-first", SidecarPlacement::FirstContainer, gated());
}

/// With hooks: by the tethers that they leave behind, and, for what has neither hook nor gate, by its port.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn stop_in_reverse_order_behind_hooks() {
    let containers = [
        server("db").http(8001).ready_after("500ms").hook(&["--tether"]).pre_stop(&["--until", "api"]),
        server("api").http(8002).hook(&["--tether"]).pre_stop(&["--check-closed", "tcp://127.0.0.1:8003"]),
        server("web").http(8003),
    ];
    three_deep("stop-hooks", SidecarPlacement::Native, containers);
}

/// Inside the pod's grace period, whatever happens: who stays for one that does not end gives up in time.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn stop_with_one_that_ignores_term() {
    let scene = Scene::shared("stop-ignores");
    if !Scene::can_inject_faults("stop-ignores") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("0s", &[]);
    let containers = [
        db.pre_stop(&["--until", "api", "--grace", "9s"]),
        api.pre_stop(&["--until", "web", "--grace", "5s"]),
        web.args(&["--ignore-term"]),
    ];
    let run = scene.create(&Pod::new("stop-ignores", containers).with(grace(12)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-ignores");
    run.wait_until_up();
    let begin = wall_ms();
    let (lives, took) = delete(&scene, "stop-ignores", &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "api", "db"], begin), took / 1000.0));
    let (db, api, web) = (of(&lives, "db"), of(&lives, "api"), of(&lives, "web"));
    let stayed = api.expect_time_of("term") - web.expect_time_of("term");
    assert!(stayed >= 4500.0, "api stayed for {stayed:.0} ms only");
    assert_one_after_the_other(&lives, &["api", "db"]);
    assert!(db.expect_time_of("term") - web.expect_time_of("term") < 9000.0, "db stayed longer than for api");
    assert!(took < 20_000.0, "it took {took:.0} ms");
    assert!(
        api.messages().any(|line| line.contains("still there after 5s: web=Exited")),
        "{:?}",
        api.messages().collect::<Vec<_>>()
    );
}

/// Deleted while db's gate has opened, api's has not: db stays for nobody who never came.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn stop_while_it_still_starts() {
    let scene = Scene::shared("stop-early");
    if !Scene::can_inject_faults("stop-early") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("10m", &[]);
    let containers = [db.pre_stop(&["--until", "api"]), api.pre_stop(&["--until", "web"]), web];
    let run = scene.create(&Pod::new("stop-early", containers).with(grace(30)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-early");
    run.watch.wait_until("db has started", 60, |seen| seen.podgate_state("db") == Some("Started"));
    let (lives, took) = delete(&scene, "stop-early", &logs);
    scene.report(&format!("gone {:+.2}", took / 1000.0));
    assert!(took < 12_000.0, "it took {took:.0} ms");
    for name in ["api", "web"] {
        assert!(
            lives.iter().filter(|life| life.name == name).all(|life| life.time_of("start").is_none()),
            "{name} ran"
        );
    }
}

/// The preStop hook runs when the kubelet restarts one container, too; the others go on.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn restart_of_one_waits_for_nobody() {
    let scene = Scene::shared("stop-restart");
    if !Scene::can_inject_faults("stop-restart") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("0s", &[]);
    let liveness = json!({"exec": {"command": ["/testserver", "check", "/podgate-self/alive"]}, "periodSeconds": 1,
        "failureThreshold": 1});
    let db = db.args(&["--touch", "/podgate-self/alive"]).pre_stop(&["--until", "api"]);
    let db = db.with(json!({"livenessProbe": liveness}));
    let run = scene.create(&Pod::new("stop-restart", [db, api, web]).with(grace(30)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-restart");
    run.wait_until_up();
    let pid = run.pid("db").expect("db runs");
    std::fs::remove_file(format!("/proc/{pid}/root/podgate-self/alive")).expect("db is alive by this file");
    run.watch.wait_until("db has been restarted", 60, |seen| seen.kubelet_status("db")["restartCount"] == 1);
    let first = logs.of_container("db").into_iter().next().expect("db's first incarnation");
    let lets_go = "lets go: only this container stops, and that waits for nobody";
    assert!(first.messages().any(|line| line == lets_go), "{:?}", first.messages().collect::<Vec<_>>());
    let stayed = first.waited_ms().expect("how long it stayed");
    scene.report(&format!("db's preStop hook let go after {stayed} ms"));
    assert!((900..5000).contains(&stayed), "{stayed} ms");
    let again = run.wait_until_up();
    for name in ["api", "web"] {
        assert_eq!(again.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}

/// A user's own preStop command runs when the others are gone, and before the program is told to end.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn own_pre_stop_runs_when_the_others_are_gone() {
    let scene = Scene::shared("stop-then");
    if !Scene::can_inject_faults("stop-then") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, _] = gated_chain_containers("0s", &[]);
    let db = db.pre_stop(&["--until", "api", "--then", r#"["/testserver","say","then"]"#]);
    let run = scene.create(&Pod::new("stop-then", [db, api]).with(grace(30)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-then");
    run.wait_until_up();
    let (lives, _) = delete(&scene, "stop-then", &logs);
    let (db, api) = (of(&lives, "db"), of(&lives, "api"));
    let then = db.expect_time_of("then");
    assert!(api.end.is_some_and(|end| end <= then) && then <= db.expect_time_of("term"), "{lives:?}");
    eventually("the pod is gone", 30, || try_kubectl(&["-n", &scene.namespace, "get", "pod", "stop-then"]).err());
}

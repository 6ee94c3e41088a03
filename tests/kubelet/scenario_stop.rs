//! Tests shutdown in the reverse of the start order.

use crate::clock::{eventually, wall_ms};
use crate::cluster::try_kubectl;
use crate::incarnation_log::IncarnationLog;
use crate::node_logs::NodeLogs;
use crate::orders::gated_chain_containers;
use crate::pod::{Container, Pod, server};
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use serde_json::json;

pub(crate) fn grace(seconds: u32) -> serde_json::Value {
    json!({"spec": {"terminationGracePeriodSeconds": seconds}})
}

/// Deletes the Pod. Returns the logs of its containers, and the duration of the deletion in milliseconds.
pub(crate) fn delete(run: &FollowedPod, logs: &NodeLogs) -> (Vec<IncarnationLog>, f64) {
    let took = run.delete();
    (logs.logs_with_ends(), took)
}

pub(crate) fn log_of<'a>(lives: &'a [IncarnationLog], name: &str) -> &'a IncarnationLog {
    lives.iter().rfind(|life| life.name == name).unwrap_or_else(|| panic!("{name} logged nothing"))
}

pub(crate) fn summary(lives: &[IncarnationLog], names: &[&str], zero: f64) -> String {
    let format_one = |name: &&str| {
        let life = log_of(lives, name);
        let at = |ms: Option<f64>| ms.map_or("never".to_owned(), |ms| format!("{:+.2}", (ms - zero) / 1000.0));
        format!("{name} TERM {} gone {}", at(life.time_of("term")), at(life.end))
    };
    names.iter().map(format_one).collect::<Vec<_>>().join(" | ")
}

/// Asserts that each container in `names` received SIGTERM only after the previous container had exited.
pub(crate) fn assert_stop_order(lives: &[IncarnationLog], names: &[&str]) {
    for pair in names.windows(2) {
        let (dependent, provider) = (log_of(lives, pair[0]), log_of(lives, pair[1]));
        let end = dependent.end.unwrap_or_else(|| panic!("{} never exited: {dependent:?}", dependent.name));
        let early = end - provider.expect_time_of("term");
        assert!(early <= 0.0, "{} received SIGTERM {early:.1} ms before {} exited", provider.name, dependent.name);
    }
}

fn assert_chain_stops_in_reverse(name: &str, containers: [Container; 3]) {
    let scene = Scene::shared(name);
    if !Scene::can_inject_faults(name) {
        return;
    }
    scene.grant_pod_access();
    let run = scene.create(&Pod::new(name, containers).with(grace(30)));
    let logs = NodeLogs::follow(&scene.namespace, name);
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    let begin = wall_ms();
    let (lives, took) = delete(&run, &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "api", "db"], begin), took / 1000.0));
    assert_stop_order(&lives, &["web", "api", "db"]);
    for name in ["web", "api", "db"] {
        log_of(&lives, name).assert_ended_in_time();
    }
}

fn gated_with_pre_stop() -> [Container; 3] {
    let [db, api, web] = gated_chain_containers("500ms", &[]);
    [db.pre_stop(&["--until", "api", "--until", "web"]), api.pre_stop(&["--until", "web"]), web]
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn containers_stop_in_reverse_order() {
    assert_chain_stops_in_reverse("stop-reverse", gated_with_pre_stop());
}

/// The preStop hooks detect exits by the tethers that postStart hooks leave behind.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hooked_containers_stop_in_reverse_order() {
    let containers = [
        server("db").http(8001).ready_after("500ms").hook(&["--tether"]).pre_stop(&["--until", "api"]),
        server("api").http(8002).hook(&["--tether"]).pre_stop(&["--until", "web"]),
        server("web").http(8003).hook(&["--tether"]).pre_stop(&[]),
    ];
    assert_chain_stops_in_reverse("stop-hooks", containers);
}

/// `api`, which is between `db` and `web`, has failed before the Pod is deleted.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn first_container_stops_last_although_the_second_one_has_failed() {
    let scene = Scene::shared("stop-gap");
    if !Scene::can_inject_faults("stop-gap") {
        return;
    }
    scene.grant_pod_access();
    let pod = Pod::new("stop-gap", gated_with_pre_stop()).with(grace(30));
    let run = scene.create(&pod.with(json!({"spec": {"restartPolicy": "Never"}})));
    let logs = NodeLogs::follow(&scene.namespace, "stop-gap");
    run.wait_until_up();
    run.signal("api", "KILL");
    run.watch.wait_until("api has failed", 90, |seen| seen.kubelet_status("api")["state"]["terminated"].is_object());
    let begin = wall_ms();
    let (lives, took) = delete(&run, &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "db"], begin), took / 1000.0));
    assert_stop_order(&lives, &["web", "db"]);
}

/// If a container never exits, the preStop hook that waits for that exit times out within the Pod's grace period.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pre_stop_gives_up_when_sigterm_is_ignored() {
    let scene = Scene::shared("stop-ignores");
    if !Scene::can_inject_faults("stop-ignores") {
        return;
    }
    scene.grant_pod_access();
    let [db, api, web] = gated_chain_containers("0s", &[]);
    let containers = [
        db.pre_stop(&["--until", "api", "--grace", "15s"]),
        api.pre_stop(&["--until", "web", "--grace", "5s"]),
        web.args(&["--ignore-term"]),
    ];
    let run = scene.create(&Pod::new("stop-ignores", containers).with(grace(18)));
    let logs = NodeLogs::follow(&scene.namespace, "stop-ignores");
    run.wait_until_up();
    let begin = wall_ms();
    let (lives, took) = delete(&run, &logs);
    scene.report(&format!("{}; pod gone {:+.2}", summary(&lives, &["web", "api", "db"], begin), took / 1000.0));
    let (db, api, web) = (log_of(&lives, "db"), log_of(&lives, "api"), log_of(&lives, "web"));
    let waited = api.expect_time_of("term") - web.expect_time_of("term");
    assert!(waited >= 4500.0, "api waited only {waited:.0} ms");
    assert_stop_order(&lives, &["api", "db"]);
    db.assert_ended_in_time();
    assert_eq!(run.killed(), "web", "api and db must end within the grace period");
    assert!(
        api.messages().any(|line| line.contains("timed out after 5s, still waiting for web=Exited")),
        "{:?}",
        api.messages().collect::<Vec<_>>()
    );
}

/// Deletes the Pod when the gate of db has opened but the gate of api has not. db must not wait for containers that
/// never started.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn deletion_during_the_start_is_not_delayed() {
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
    let (lives, took) = delete(&run, &logs);
    scene.report(&format!("gone {:+.2}", took / 1000.0));
    log_of(&lives, "db").assert_ended_in_time();
    assert_eq!(run.killed(), "");
    for name in ["api", "web"] {
        assert!(
            lives
                .iter()
                .filter(|life| life.name == name)
                .all(|life| life.time_of("start").is_none() && !life.timed_out()),
            "{name} ran, or a hook waited for it"
        );
    }
}

/// A preStop hook also runs when the kubelet restarts a single container. The hook must not wait then, because the
/// other containers keep running.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn pre_stop_does_not_wait_on_a_single_restart() {
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
    std::fs::remove_file(format!("/proc/{pid}/root/podgate-self/alive")).expect("the file of db's liveness probe");
    run.watch.wait_until("db has been restarted", 60, |seen| seen.kubelet_status("db")["restartCount"] == 1);
    let first = logs.of_container("db").into_iter().next().expect("db's first incarnation");
    let lets_go = "released: only this container stops, so the hook does not wait";
    assert!(first.messages().any(|line| line == lets_go), "{:?}", first.messages().collect::<Vec<_>>());
    let waited = first.waited_ms().expect("a waiting time in the log");
    scene.report(&format!("db's preStop hook returned after {waited} ms"));
    assert!(waited >= 2900, "{waited} ms");
    let is_up_again = |seen: &ObservedPod| seen.is_up() && seen.kubelet_status("db")["restartCount"] == 1;
    let again = run.watch.wait_until("the Pod is up again", 120, is_up_again);
    for name in ["api", "web"] {
        assert_eq!(again.kubelet_status(name)["restartCount"], 0, "{name}");
    }
}

/// The user's own preStop command runs after the dependents have exited, and before the program receives SIGTERM.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn user_pre_stop_runs_after_the_dependents_exit() {
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
    let (lives, _) = delete(&run, &logs);
    let (db, api) = (log_of(&lives, "db"), log_of(&lives, "api"));
    let then = db.expect_time_of("then");
    assert!(api.end.is_some_and(|end| end <= then) && then <= db.expect_time_of("term"), "{lives:?}");
    eventually("the pod is gone", 30, || try_kubectl(&["-n", &scene.namespace, "get", "pod", "stop-then"]).err());
}

//! Tests orders other than chains, conditions other than Ready, and dependents of a provider that restarts.

use crate::clock::eventually;
use crate::cluster::{BUSYBOX_IMAGE, kubectl};
use crate::incarnation_log::summary;
use crate::node_logs::NodeLogs;
use crate::orders::diamond_containers;
use crate::pod::{Container, Pod, server};
use crate::scene::Scene;
use serde_json::{Value, json};

/// Two branches start at the same time, which is possible only with gates.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn diamond_branches_start_together() {
    let scene = Scene::shared("diamond");
    scene.grant_pod_access();
    let mut side_by_side = false;
    for round in 1..=3 {
        let name = format!("diamond-{round}");
        let run = scene.create(&Pod::new(&name, diamond_containers("1500ms", &[])));
        run.wait_until_up();
        let lives = ["db", "api", "cache", "web"].map(|name| run.log(name));
        scene.report(&summary(&lives));
        let [db, api, cache, web] = &lives;
        for branch in [api, cache] {
            assert!(
                branch.start_time() >= db.ready_time(),
                "order broken: {} started before db was ready",
                branch.name
            );
            assert!(
                web.start_time() >= branch.ready_time(),
                "order broken: web started before {} was ready",
                branch.name
            );
        }
        side_by_side |= api.start_time() < cache.ready_time() && cache.start_time() < api.ready_time();
        kubectl(&["-n", &scene.namespace, "delete", "pod", &name, "--wait=false"]);
    }
    // A busy machine can delay either container by a second in any round, so one good round is enough.
    assert!(side_by_side, "api and cache started one after the other in each round");
}

/// Containers with hooks come first in the list, then containers with gates.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn gates_may_follow_hooks() {
    let scene = Scene::shared("mixed");
    scene.grant_pod_access();
    let containers = [
        server("db").http(8001).ready_after("1500ms").hook(&[]),
        server("log"),
        server("api").http(8002).ready_after("500ms").gate(&["--until", "db"]),
        server("web").http(8003).gate(&["--until", "api"]),
    ];
    let run = scene.create(&Pod::new("mixed", containers));
    run.wait_until_up();
    run.assert_order(&["db", "api", "web"]);
    assert!(run.log("log").start_time() >= run.log("db").ready_time());
}

/// A container whose gate waits must not precede a container with a hook, because the kubelet starts nothing while a
/// hook runs. The sidecar rejects such a Pod before any container has started, and logs the reason.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn sidecar_rejects_a_gate_before_a_hook() {
    let scene = Scene::shared("refused");
    scene.grant_pod_access();
    let containers = [server("api").gate(&["--until", "db"]), server("db").http(8001).hook(&[])];
    let declared = Pod::new("declared", containers).json();
    let mut from_spec = declared.clone();
    from_spec["metadata"]["name"] = "from-spec".into();
    // Without PODGATE_CONTAINERS, the sidecar reads the containers from the Pod's spec.
    let environment = from_spec["spec"]["initContainers"][0]["env"].as_array_mut().expect("an environment");
    environment.retain(|entry| entry["name"] != "PODGATE_CONTAINERS");
    for (pod, name) in [(&declared, "declared"), (&from_spec, "from-spec")] {
        let run = scene.follow(name);
        crate::cluster::create(&scene.namespace, &pod.to_string());
        let seen = run.watch.wait_until("the sidecar has ended", 60, |seen| {
            let status = seen.kubelet_status("podgate");
            status["lastState"]["terminated"].is_object() || status["state"]["terminated"].is_object()
        });
        let log = eventually("the reason", 20, || {
            let log = crate::cluster::try_kubectl(&["-n", &scene.namespace, "logs", name, "-c", "podgate"]).ok()?;
            log.contains("put db before api").then_some(log)
        });
        scene.report(&format!("{name}: {}", log.lines().last().unwrap_or_default()));
        for container in ["api", "db"] {
            assert!(seen.kubelet_status(container)["state"]["running"].is_null(), "{container} runs");
        }
    }
}

/// Creates `migrate`, which fails after 4 s. By then, the gates of the other containers wait. The second run of
/// `migrate` succeeds.
fn migrate() -> Container {
    let script =
        "if [ -e /podgate-self/failed ]; then sleep 1; exit 0; fi; touch /podgate-self/failed; sleep 4; exit 3";
    server("migrate").gate(&["--tether", "parent"]).with(json!({"image": BUSYBOX_IMAGE, "args": ["sh", "-c", script]}))
}

fn on_failure() -> Value {
    json!({"spec": {"restartPolicy": "OnFailure"}})
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn conditions_follow_a_step_that_fails_first() {
    let scene = Scene::shared("conditions");
    if !Scene::can_inject_faults("conditions") {
        return;
    }
    scene.grant_pod_access();
    let containers = [
        migrate(),
        server("on-start").gate(&["--until", "migrate=Started"]),
        server("on-exit").gate(&["--until", "migrate=Exited"]),
        server("on-completion").gate(&["--until", "migrate=Completed"]),
    ];
    let run = scene.create(&Pod::new("conditions", containers).with(on_failure()));
    let logs = NodeLogs::follow(&scene.namespace, "conditions");
    let started = |name: &str| {
        eventually(name, 60, || logs.of_container(name).into_iter().find_map(|life| life.time_of("start")))
    };
    let [on_start, on_exit, on_completion] = ["on-start", "on-exit", "on-completion"].map(started);
    let all = crate::cluster::incarnations(&scene.namespace, "conditions");
    let migrate: Vec<_> = all.iter().filter(|i| i.container == "migrate").collect();
    let (first, second) = (migrate[0], migrate[1]);
    let at = |time: Option<f64>| time.expect("a time");
    let from = |time: f64| (time - at(first.started)) / 1000.0;
    scene.report(&format!(
        "migrate fails {:+.2}, succeeds {:+.2}; on-start {:+.2}, on-exit {:+.2}, on-completion {:+.2}",
        from(at(first.finished)),
        from(at(second.finished)),
        from(on_start),
        from(on_exit),
        from(on_completion)
    ));
    // The programs log their times. containerd records its times a little later.
    assert!(on_start < at(first.finished), "Started must hold while migrate runs");
    assert!(on_exit > at(first.started) + 1000.0 && on_exit < at(second.finished), "Exited must hold after any exit");
    assert!(on_completion > at(second.started) + 500.0, "order broken: Completed held after a failure");
    let seen = run
        .watch
        .wait_until("podgate publishes Completed", 30, |seen| seen.podgate_state("migrate") == Some("Completed"));
    assert_eq!(seen.kubelet_status("migrate")["restartCount"], 1);
}

/// `db` crashes after the start. Only the dependent with `--restart-with db` restarts too.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn dependent_restarts_with_its_provider_only_on_request() {
    let scene = Scene::shared("provider");
    if !Scene::can_inject_faults("provider") {
        return;
    }
    scene.grant_pod_access();
    let containers = [
        server("db").http(8001).ready_after("1500ms").gate(&[]),
        server("ignores").gate(&["--until", "db"]),
        server("follows").gate(&["--until", "db", "--restart-with", "db"]),
    ];
    let run = scene.create(&Pod::new("provider", containers));
    let logs = NodeLogs::follow(&scene.namespace, "provider");
    run.wait_until_up();
    run.signal("db", "KILL");
    let again = eventually("follows restarts", 60, || {
        logs.of_container("follows").into_iter().find(|l| l.attempt == 1 && l.time_of("start").is_some())
    });
    let db = logs.of_container("db").into_iter().find(|life| life.attempt == 1).expect("db's second incarnation");
    assert!(again.start_time() >= db.ready_time(), "order broken: follows restarted before db was ready again");
    let first = logs.of_container("follows").remove(0);
    assert!(first.time_of("term").is_some(), "follows did not receive SIGTERM");
    let why = first.messages().last().unwrap_or_default().to_owned();
    assert!(why.contains("db was restarted"), "{why}");
    scene.report(&format!(
        "{why}; restarted {:+.2} s after db was ready again",
        (again.start_time() - db.ready_time()) / 1000.0
    ));
    let seen =
        run.watch.wait_until("all is up again", 60, |s| s.is_up() && s.kubelet_status("follows")["restartCount"] == 1);
    assert_eq!(seen.kubelet_status("ignores")["restartCount"], 0);
}

/// `--fail-fast` ends the wait when a condition cannot be met without user intervention. The container status shows the
/// reason.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn fail_fast_ends_a_hopeless_wait() {
    let scene = Scene::shared("fail-fast");
    scene.grant_pod_access();
    let never = json!({"image": "localhost/nowhere/nothing:1", "imagePullPolicy": "Never"});
    let failing = json!({"image": BUSYBOX_IMAGE, "args": ["sh", "-c", "exit 3"]});
    let gate = |until| ["--fail-fast", "--until", until];
    let containers = [
        server("db").with(never),
        server("migrate").gate(&["--tether", "parent"]).with(failing),
        server("a").gate(&gate("db")),
        server("b").gate(&gate("migrate=Completed")),
    ];
    let run = scene.create(&Pod::new("fail-fast", containers).with(json!({"spec": {"restartPolicy": "Never"}})));
    let end = |seen: &crate::watch::ObservedPod, name: &str| {
        let end = &seen.kubelet_status(name)["state"]["terminated"];
        (end["exitCode"].as_i64() == Some(69)).then(|| end["message"].as_str().unwrap_or_default().to_owned())
    };
    let seen =
        run.watch.wait_until("both gates have failed", 60, |seen| end(seen, "a").is_some() && end(seen, "b").is_some());
    let (a, b) = (end(&seen, "a").unwrap_or_default(), end(&seen, "b").unwrap_or_default());
    scene.report(&format!("{a} | {b}"));
    assert!(a.contains("db=Ready cannot be met: the container is stuck in ErrImageNeverPull"), "{a}");
    assert!(b.contains("migrate=Completed cannot be met: the container is Failed and will not be restarted"), "{b}");
}

//! Orders that are no chain, conditions other than Ready, and what happens to dependents when a provider starts again.

use crate::clock::eventually;
use crate::cluster::{BUSYBOX_IMAGE, kubectl};
use crate::incarnation_log::summary;
use crate::node_logs::NodeLogs;
use crate::orders::diamond_containers;
use crate::pod::{Container, Pod, server};
use crate::scene::Scene;
use serde_json::{Value, json};

/// Branches side by side, which no hook can have.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn diamond() {
    let scene = Scene::shared("diamond");
    scene.grant_pod_access();
    let mut apart = Vec::new();
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
        apart.push((api.start_time() - cache.start_time()).abs());
        kubectl(&["-n", &scene.namespace, "delete", "pod", &name, "--wait=false"]);
    }
    scene.report(&format!("api and cache started {apart:.1?} ms apart"));
    // A machine that is busy with something else can keep one of them waiting at any time.
    assert!(apart.iter().any(|ms| *ms < 50.0), "{apart:?}");
}

/// First those that hooks hold back, then those that wait by themselves.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn hooks_then_gates() {
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

/// No gate waits under a hook's freeze: what can't be kept is refused before anything has started, and the reason is where
/// people look.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn a_gate_before_a_hook_is_refused() {
    let scene = Scene::shared("refused");
    scene.grant_pod_access();
    let containers = [server("api").gate(&["--until", "db"]), server("db").http(8001).hook(&[])];
    let mut told = Pod::new("told", containers).json();
    let mut learnt = told.clone();
    learnt["metadata"]["name"] = "learnt".into();
    // Without the list the sidecar reads the pod's own spec.
    let environment = learnt["spec"]["initContainers"][0]["env"].as_array_mut().expect("an environment");
    environment.retain(|entry| entry["name"] != "PODGATE_CONTAINERS");
    for (pod, name) in [(&mut told, "told"), (&mut learnt, "learnt")] {
        let run = scene.follow(name);
        crate::cluster::create(&scene.namespace, &pod.to_string());
        let seen = run.watch.wait_until("the sidecar has ended", 60, |seen| {
            let status = seen.kubelet_status("podgate");
            status["lastState"]["terminated"].is_object() || status["state"]["terminated"].is_object()
        });
        let log = eventually("why", 20, || {
            let log = crate::cluster::try_kubectl(&["-n", &scene.namespace, "logs", name, "-c", "podgate"]).ok()?;
            log.contains("put db before api").then_some(log)
        });
        scene.report(&format!("{name}: {}", log.lines().last().unwrap_or_default()));
        for container in ["api", "db"] {
            assert!(seen.kubelet_status(container)["state"]["running"].is_null(), "{container} runs");
        }
    }
}

/// `migrate` fails the first time, when the others have long been started, and succeeds the second.
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
fn conditions_of_one_that_fails_first() {
    let scene = Scene::shared("conditions");
    if !Scene::can_inject_faults("conditions") {
        return;
    }
    scene.grant_pod_access();
    let containers = [
        migrate(),
        server("begun").gate(&["--until", "migrate=Started"]),
        server("ended").gate(&["--until", "migrate=Exited"]),
        server("after").gate(&["--until", "migrate=Completed"]),
    ];
    let run = scene.create(&Pod::new("conditions", containers).with(on_failure()));
    let logs = NodeLogs::follow(&scene.namespace, "conditions");
    let started = |name: &str| {
        eventually(name, 60, || logs.of_container(name).into_iter().find_map(|life| life.time_of("start")))
    };
    let (after, ended, begun) = (started("after"), started("ended"), started("begun"));
    let all = crate::cluster::incarnations(&scene.namespace, "conditions");
    let migrate: Vec<_> = all.iter().filter(|i| i.container == "migrate").collect();
    let (first, second) = (migrate[0], migrate[1]);
    let at = |time: Option<f64>| time.expect("a time");
    let from = |time: f64| (time - at(first.started)) / 1000.0;
    scene.report(&format!(
        "migrate fails {:+.2}, succeeds {:+.2}; begun {:+.2}, ended {:+.2}, after {:+.2}",
        from(at(first.finished)),
        from(at(second.finished)),
        from(begun),
        from(ended),
        from(after)
    ));
    // The programs' own times against containerd's, which come a little later.
    assert!(begun < at(first.finished), "Started holds while it runs");
    assert!(ended > at(first.started) + 1000.0 && ended < at(second.finished), "Exited holds after any exit");
    assert!(after > at(second.started) + 500.0, "order broken: Completed does not hold after a failure");
    let seen = run.watch.wait_until("it says so", 30, |seen| seen.podgate_state("migrate") == Some("Completed"));
    assert_eq!(seen.kubelet_status("migrate")["restartCount"], 1);
}

/// `Ready`, of one that crashes before it is, with the dependent's gate there all the while.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn provider_restarts_and_dependents_follow_or_not() {
    let scene = Scene::shared("provider");
    if !Scene::can_inject_faults("provider") {
        return;
    }
    scene.grant_pod_access();
    let containers = [
        server("db").http(8001).ready_after("1500ms").gate(&[]),
        server("ignores").gate(&["--until", "db"]),
        server("follows").gate(&["--until", "db", "--on-provider-restart", "restart"]),
    ];
    let run = scene.create(&Pod::new("provider", containers));
    let logs = NodeLogs::follow(&scene.namespace, "provider");
    run.wait_until_up();
    run.signal("db", "KILL");
    let again = eventually("follows starts again", 60, || {
        logs.of_container("follows").into_iter().find(|l| l.attempt == 1 && l.time_of("start").is_some())
    });
    let db = logs.of_container("db").into_iter().find(|life| life.attempt == 1).expect("db's second incarnation");
    assert!(again.start_time() >= db.ready_time(), "order broken: it started again before db was ready again");
    let first = logs.of_container("follows").remove(0);
    assert!(first.time_of("term").is_some(), "it was not told to end");
    let why = first.messages().last().unwrap_or_default().to_owned();
    assert!(why.contains("db was restarted"), "{why}");
    scene.report(&format!(
        "{why}; started again {:+.2} s after db was ready again",
        (again.start_time() - db.ready_time()) / 1000.0
    ));
    let seen =
        run.watch.wait_until("all is up again", 60, |s| s.is_up() && s.kubelet_status("follows")["restartCount"] == 1);
    assert_eq!(seen.kubelet_status("ignores")["restartCount"], 0);
}

/// `--fail-fast`: what can't come to hold without help ends the wait, with the reason in the status.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn fail_fast() {
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
        run.watch.wait_until("both have given up", 60, |seen| end(seen, "a").is_some() && end(seen, "b").is_some());
    let (a, b) = (end(&seen, "a").unwrap_or_default(), end(&seen, "b").unwrap_or_default());
    scene.report(&format!("{a} | {b}"));
    assert!(a.contains("db=Ready: it is stuck in ErrImageNeverPull"), "{a}");
    assert!(b.contains("migrate=Completed: it is Failed for good"), "{b}");
}

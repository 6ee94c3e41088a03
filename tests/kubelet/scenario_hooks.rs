//! Tests hooks: time limits, the user's own hook, and overrides by an operator.

use crate::cluster::kubectl;
use crate::orders::chain_containers;
use crate::pod::{Pod, server};
use crate::scene::Scene;
use crate::watch::ObservedPod;

const NEVER: &str = "10m";

/// Returns the kubelet's message about a failed hook, and the container's termination message. Returns `None` if the
/// hook has not failed.
fn failure(seen: &ObservedPod, container: &str) -> Option<(String, String)> {
    let status = seen.kubelet_status(container);
    let waiting = status["state"]["waiting"]["message"]
        .as_str()
        .filter(|_| status["state"]["waiting"]["reason"] == "PostStartHookError")?;
    let words = status["lastState"]["terminated"]["message"].as_str().unwrap_or("");
    Some((waiting.to_owned(), words.to_owned()))
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_fails_after_timeout() {
    let scene = Scene::shared("timeout-fail");
    scene.grant_pod_access();
    let [db, api, web] = chain_containers(NEVER, &[]);
    let run = scene.create(&Pod::new("timeout-fail", [db.hook(&["--timeout", "3s"]), api, web]));
    let seen = run.watch.wait_until("the kubelet shows why the hook failed", 60, |seen| failure(seen, "db").is_some());
    let (message, words) = failure(&seen, "db").expect("a failed hook");
    let why = "timed out after 3s, still waiting for db=Ready (now Started)";
    assert!(message.contains("exited with 75") && message.contains(why), "{message}");
    assert!(words.contains(why) && words.len() < 1024, "{words}");
    // In post-start mode, the kubelet also starts the next container after a failed hook, but not before the hook has
    // failed. When the second incarnation of db has failed too, `--previous` returns it, so read this log at once.
    let first = crate::incarnation_log::IncarnationLog::fetch(&scene.namespace, &run.pod, "db", true);
    let api = run.log("api").start_time();
    assert!(api - first.start_time() >= 3000.0, "api started {} ms after db", api - first.start_time());
    scene.report(&format!("api {:+.2} s after db; {words}", (api - first.start_time()) / 1000.0));
    // The restarts of db must not block the other containers.
    run.watch.wait_until("api and web are up", 60, |s| {
        s.kubelet_status("api")["ready"] == true && s.kubelet_status("web")["ready"] == true
    });
}

/// A hook that reads only the downward-API volume times out, although the API server has the state.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn downward_api_volume_does_not_change_while_a_hook_runs() {
    let scene = Scene::shared("frozen-volume");
    if !Scene::can_inject_faults("frozen-volume") {
        return;
    }
    scene.grant_pod_access();
    // Without the board, the sidecar does not know the first run of `db`. The sidecar publishes the state during the
    // hook of the second run, unless the kubelet reports the end of the first run earlier. In that case, try another
    // Pod.
    for number in 0..5 {
        let name = format!("frozen-volume-{number}");
        let db = server("db").http(8001).hook(&["--board", "/nonexistent", "--timeout", "20s"]);
        let run = scene.create(&Pod::new(&name, [db, server("api").http(8002)]));
        run.watch.wait_until("the API server has the state", 90, |seen| seen.podgate_state("db") == Some("Ready"));
        if run.agent_pid("db", "post-start").is_none() {
            continue;
        }
        // The hook reads the volume each second until its time limit. When no hook runs, the kubelet updates the volume
        // in about a second.
        let seen = run.watch.wait_until("the hook has failed", 60, |seen| failure(seen, "db").is_some());
        let (_, words) = failure(&seen, "db").expect("a failed hook");
        assert!(words.contains("the downward-API volume has no podgate annotations"), "{words}");
        return;
    }
    panic!("the state was never published during a hook");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_continues_after_timeout_if_allowed() {
    let scene = Scene::shared("timeout-continue");
    scene.grant_pod_access();
    let [db, api, web] = chain_containers(NEVER, &[]);
    let db = db.hook(&["--timeout", "3s", "--on-timeout", "continue"]);
    let run = scene.create(&Pod::new("timeout-continue", [db, api, web]));
    let seen = run.watch.wait_until("web is ready", 60, |s| s.kubelet_status("web")["ready"] == true);
    let (db, api, web) = (run.log("db"), run.log("api"), run.log("web"));
    assert!(api.start_time() - db.start_time() >= 3000.0, "{}", api.start_time() - db.start_time());
    assert!(web.start_time() >= api.ready_time());
    assert!(
        db.last_message().contains("timed out after 3s") && db.last_message().ends_with("--on-timeout=continue)"),
        "{}",
        db.last_message()
    );
    assert_eq!(seen.kubelet_status("db")["restartCount"], 0);
    assert_eq!(seen.kubelet_status("db")["ready"], false);
    scene.report(&format!(
        "api {:+.2} s after db; {}",
        (api.start_time() - db.start_time()) / 1000.0,
        db.last_message()
    ));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn user_hook_runs_before_the_wait() {
    let scene = Scene::shared("then");
    scene.grant_pod_access();
    let [db, api, web] = chain_containers("1500ms", &[]);
    let db = db.hook(&["--then", r#"["/testserver","say","then"]"#]);
    let run = scene.create(&Pod::new("then", [db, api, web]));
    run.wait_until_up();
    let lives = run.assert_order(&["db", "api", "web"]);
    let runs = lives[0].events.iter().filter(|e| e.name == "then").count();
    assert_eq!(runs, 1, "{:?}", lives[0]);
    assert!(lives[0].expect_time_of("then") < lives[0].ready_time(), "the user's hook must run before db is ready");
    assert_eq!(lives[0].last_message(), "released: all conditions are met");
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn hook_fails_if_the_user_hook_fails() {
    let scene = Scene::shared("then-fails");
    scene.grant_pod_access();
    let containers =
        [server("db").hook(&["--then", r#"["/testserver","say","then","--exit-code","7"]"#]), server("web")];
    let run = scene.create(&Pod::new("then-fails", containers));
    let seen = run.watch.wait_until("the kubelet shows why the hook failed", 60, |seen| failure(seen, "db").is_some());
    let (message, words) = failure(&seen, "db").expect("a failed hook");
    assert!(message.contains("exited with 7") && words.contains("own postStart command"), "{message}: {words}");
    scene.report(&words);
}

/// Sets the annotation that `kubectl podgate override` writes.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn override_annotation_opens_hooks() {
    let scene = Scene::shared("override");
    scene.grant_pod_access();
    let run = scene.create(&Pod::new("override", chain_containers(NEVER, &[])));
    let seen = run.watch.wait_until("db is Started", 60, |s| s.podgate_state("db") == Some("Started"));
    let sandbox = seen.annotation("sandbox.podgate.io/id").expect("the sandbox").to_owned();
    let annotate = |value: &str| {
        kubectl(&["-n", &scene.namespace, "annotate", "--overwrite", "pod", "override", value]);
    };
    // An override has no effect if its id belongs to another sandbox or matches every sandbox.
    annotate("override.podgate.io/db=Ready@3f2a9c1e-1-1a0c5f3b");
    annotate("override.podgate.io/db=Ready@0-0-0");
    let at = crate::clock::wall_ms();
    annotate(&format!("override.podgate.io/db=Ready@{sandbox}"));
    run.watch.wait_until("web is ready", 60, |s| s.kubelet_status("web")["ready"] == true);
    let (api, web) = (run.log("api"), run.log("web"));
    assert!(api.start_time() >= at && web.start_time() >= api.ready_time());
    scene.report(&format!("api {:+.2} s after the override", (api.start_time() - at) / 1000.0));
}

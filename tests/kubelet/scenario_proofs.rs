//! Tests containers without command and probe. Namespaces have no role of podgate unless a test binds it.

use crate::clock::{eventually, wall_ms};
use crate::cluster::{IMAGE, TESTSERVER_IMAGE};
use crate::pod::merge;
use crate::scenario_view::run_podgate;
use crate::scene::{FollowedPod, Scene};
use crate::watch::ObservedPod;
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

/// Returns the injected Pod `name` with this order. Each container runs the test server with arguments only, so its
/// command is not known. The values are merged into the containers.
fn pod(name: &str, order: &str, containers: &[(&str, Value)]) -> String {
    let container = |(name, patch): &(&str, Value)| {
        let mut container = json!({"name": name, "image": TESTSERVER_IMAGE});
        merge(&mut container, patch.clone());
        container
    };
    let template = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"podgate.io/order": order}},
        "spec": {"terminationGracePeriodSeconds": 5, "activeDeadlineSeconds": 600, "restartPolicy": "OnFailure",
            "containers": containers.iter().map(container).collect::<Vec<_>>()}});
    inject(&template, &Options::new(IMAGE), &KnownFacts::default()).expect("the order is valid").value.to_string()
}

fn with_command() -> Value {
    json!({"command": ["/testserver"]})
}

fn create<'a>(scene: &'a Scene, manifest: &str) -> FollowedPod<'a> {
    let name = serde_json::from_str::<Value>(manifest).expect("JSON")["metadata"]["name"].as_str().map(str::to_owned);
    let run = scene.follow(&name.expect("a name"));
    crate::cluster::create(&scene.namespace, manifest);
    run
}

/// The postStart hook of `redis` reports its start, so the sidecar needs no role. The tether shows that `redis` runs
/// even after a restart of the sidecar.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn container_without_command_and_probe_is_known_without_the_role() {
    let scene = Scene::shared("proof-hook");
    let own_hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["/testserver", "say", "then"]}}}});
    for (name, redis, app) in
        [("gate", json!({}), with_command()), ("held", json!({}), json!({})), ("own-hook", own_hook, with_command())]
    {
        let run = create(&scene, &pod(name, "redis, app", &[("redis", redis), ("app", app)]));
        run.watch.wait_until("the Pod is ready", 120, ObservedPod::is_ready);
        run.assert_order(&["redis", "app"]);
        let (_, status) = run_podgate(&run, &["status"]);
        assert!(status.starts_with(&format!("Pod {}/{name} has started.", scene.namespace)), "{status}");
        assert_eq!(run.log("redis").time_of("then").is_some(), name == "own-hook");
        if name == "gate" {
            run.signal("podgate", "KILL");
            run.wait_for_start("podgate", 2);
            let killed = wall_ms();
            run.signal("app", "KILL");
            eventually("the gate opens again", 60, || run.log("app").time_of("start").filter(|at| *at > killed));
        }
    }
}

/// Without the role, the gate and `status` say what podgate cannot see. With the role, the container starts.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn condition_that_needs_the_role_is_named() {
    let exec = json!({"startupProbe": {"exec": {"command": ["/testserver", "--help"]}}});
    let scene = Scene::shared("proof-role");
    let cases = [
        ("migrate", "migrate=Completed, app", json!({"args": ["--exit-after", "1s"]}), "migrate=Completed"),
        ("startup", "db, app", exec, "db=Ready"),
    ];
    let run = |(name, order, first, condition): &(&str, &str, Value, &'static str)| {
        let first = (order.split(['=', ',']).next().unwrap_or_default(), first.clone());
        (create(&scene, &pod(name, order, &[first, ("app", with_command())])), *condition)
    };
    let runs = cases.each_ref().map(run);
    for (run, condition) in &runs {
        let message = eventually("the gate names the condition", 60, || {
            run.termination_message("app").filter(|message| message.contains("cannot see"))
        });
        assert!(message.contains(&format!("waiting for {condition} (podgate cannot see this")), "{message}");
        let (_, status) = run_podgate(run, &["status"]);
        assert!(status.contains("is starting") && !status.contains("has started"), "{status}");
        assert!(status.contains("podgate sees this only with its role"), "{status}");
    }
    scene.grant_pod_access();
    for (run, _) in &runs {
        eventually("app starts with the role", 90, || run.log("app").time_of("start"));
    }
}

//! Runs the scenarios of `kubectl podgate try` on the kubelet. The same events must occur in the same order.

#[path = "../common/start_scenarios.rs"]
mod start_scenarios;

use crate::clock::eventually;
use crate::cluster::{self, TESTSERVER_IMAGE, kubectl_json};
use crate::injected::inject_manifest;
use crate::node_logs::NodeLogs;
use crate::scene::{FollowedPod, Scene};
use serde_json::{Value, json};
use start_scenarios::{Scenario, chain, scenarios};
use std::time::Duration;

/// Factor by which all delays are longer than in the tests of `try`, because the kubelet takes longer to create
/// containers.
const SLOWER: u64 = 5;
/// Delays until Ready, as in the tests of `try`.
const READY_MS: [(&str, u64); 3] = [("db", 300), ("api", 200), ("web", 100)];

/// Returns the fault of `container`, such as `crash:600ms`.
fn fault_of<'a>(scenario: &Scenario, container: &str) -> Option<(&'a str, u64)>
where
    Scenario: 'a,
{
    let fault = scenario.faults.iter().find_map(|fault| fault.strip_prefix(container)?.strip_prefix('@'))?;
    let (kind, after) = fault.split_once(':').unwrap_or((fault, "0ms"));
    Some((kind, after.strip_suffix("ms").and_then(|ms| ms.parse().ok()).expect("milliseconds")))
}

/// Returns the scenario's Pod with test servers as containers.
fn manifest(scenario: &Scenario) -> Value {
    let mut pod = scenario.pod.clone().unwrap_or_else(chain);
    let order = pod["metadata"]["annotations"]["podgate.io/order"].as_str().expect("an order").to_owned();
    let has_work = pod["metadata"]["annotations"]["podgate.io/job-sidecars"].is_string();
    for (index, container) in pod["spec"]["containers"].as_array_mut().expect("containers").iter_mut().enumerate() {
        let (name, ready) = READY_MS[index];
        assert_eq!(container["name"], name);
        let ms = |ms: u64| format!("{}ms", ms * SLOWER);
        let port = (7001 + index).to_string();
        let mut words = vec!["/testserver".to_owned(), "--http".to_owned(), port.clone()];
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        match fault_of(scenario, name) {
            Some(("never", _)) => add("--ready-after", "1h".to_owned()),
            other => {
                add("--ready-after", ms(ready));
                if let Some(("crash", after)) = other {
                    add("--exit-after", ms(after));
                    add("--exit-code", "1".to_owned());
                }
            }
        }
        if order.contains(&format!("{name}=Completed")) || has_work && name != "db" {
            add("--exit-after", ms(500));
        }
        container["image"] = TESTSERVER_IMAGE.into();
        container["command"] = json!(words);
        container["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 7001 + index}, "periodSeconds": 1});
    }
    pod
}

/// Returns the starts, readiness and ends of the containers so far, such as `db Ready`.
fn events(logs: &NodeLogs) -> Vec<String> {
    let mut events = Vec::new();
    for life in logs.logs_with_ends() {
        let mut add = |at: Option<f64>, what: &str| events.extend(at.map(|at| (at, format!("{} {what}", life.name))));
        add(life.time_of("start"), "started");
        add(life.time_of("ready"), "Ready");
        add(life.end, "ended");
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    events.into_iter().map(|(_, event)| event).collect()
}

/// Returns true if the `expected` events occur in this order.
fn have_occurred(expected: &[String], events: &[String]) -> bool {
    let mut rest = events.iter();
    expected.iter().all(|wanted| rest.any(|event| event == wanted))
}

/// Asserts that no container started before its conditions in `order` were met.
fn assert_never_too_early(order: &str, events: &[String]) {
    let items: Vec<&str> = order.split(", ").collect();
    for pair in items.windows(2) {
        let condition = match pair[0].split_once('=') {
            Some((name, _)) => format!("{name} ended"),
            None => format!("{} Ready", pair[0]),
        };
        let start = format!("{} started", pair[1].split('=').next().unwrap_or_default());
        let first = events.iter().find(|event| **event == condition || **event == start);
        assert_ne!(first, Some(&start), "order broken: {events:?}");
    }
}

/// Asserts that the kubelet reports the exit codes that the scenario's events name.
fn assert_exit_codes(scenario: &Scenario, run: &FollowedPod<'_>) {
    for event in scenario.events {
        let Some((name, rest)) = event.split_once(" ended (") else { continue };
        let expected = match rest.split(')').next().expect("a reason") {
            "SIGKILL" => 137,
            reason => reason.strip_prefix("exit code ").and_then(|code| code.parse().ok()).expect("an exit code"),
        };
        eventually(&format!("{name} has ended with {expected}"), 30, || {
            let pod = kubectl_json(&["-n", &run.scene.namespace, "get", "pod", &run.pod]);
            let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].clone());
            let all: Vec<Value> = lists.iter().filter_map(Value::as_array).flatten().cloned().collect();
            let status = all.iter().find(|status| status["name"] == name)?;
            let ends = ["state", "lastState"].map(|state| &status[state]["terminated"]["exitCode"]);
            ends.iter().any(|code| **code == expected).then_some(())
        });
    }
}

fn run(scenario: &Scenario) {
    let scene = Scene::shared(&format!("try-{}", scenario.name));
    scene.grant_pod_access();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pod.json");
    let pod = manifest(scenario);
    std::fs::write(&path, pod.to_string()).expect("a file");
    let text = inject_manifest(path.to_str().expect("a path"), &[]).unwrap_or_else(|error| panic!("{error}"));
    let logs = NodeLogs::follow(&scene.namespace, "chain");
    let follow = scene.follow("chain");
    cluster::create(&scene.namespace, &text);
    for (name, container) in [("api", "api"), ("sidecar", "podgate")] {
        if let Some(("kill", after)) = fault_of(scenario, name) {
            follow.wait_for_start(container, 1);
            // `try` counts from the start of the Pod, and kills a container only after its start.
            std::thread::sleep(Duration::from_millis(after * SLOWER));
            follow.signal(container, "KILL");
        }
    }
    // The start of a gate that waits does not count as the start of its container.
    let is_start = |event: &&str| ["started", "Ready", "ended"].contains(&event.split(' ').nth(1).unwrap_or_default());
    let of_container = |event: &&str| !event.starts_with("podgate");
    let words = |event: &str| event.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let expected: Vec<String> =
        scenario.events.iter().copied().filter(is_start).filter(of_container).map(words).collect();
    eventually(&format!("{expected:?}"), 90, || have_occurred(&expected, &events(&logs)).then_some(()));
    assert_exit_codes(scenario, &follow);
    if scenario.code == 3 {
        // In `try`, some containers never started. Wait, to detect if one of them starts here.
        std::thread::sleep(Duration::from_secs(5));
    }
    let order = pod["metadata"]["annotations"]["podgate.io/order"].as_str().expect("an order");
    assert_never_too_early(order, &events(&logs));
    scene.report(&events(&logs).join(", "));
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn events_agree_with_those_of_try() {
    // This scenario reads the logs on the node, which is only possible in a test cluster.
    if !Scene::can_inject_faults("try") {
        return;
    }
    let all = scenarios();
    std::thread::scope(|scope| {
        for scenario in &all {
            scope.spawn(move || run(scenario));
        }
    });
}

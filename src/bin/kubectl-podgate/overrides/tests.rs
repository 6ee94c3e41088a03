//! Tests of override plans for whole Pods.

use super::args::OverrideTarget;
use super::change::{GateEffect, OverridePlan, plan_set};
use super::{OverrideOutcome, text};
use crate::pod::Pod;
use crate::pod::tests::{Change, gate, held, hook, now, running};
use podgate::core::state::State;
use serde_json::{Value, json};

const SANDBOX: &str = "3f2a9c1e-4097-1a0c5f3b";

fn target(container: &str, state: State) -> OverrideTarget {
    OverrideTarget { container: container.to_owned(), state: Some(state) }
}

/// Returns a Pod in which `db` has started. `db` and `api` have hooks, `web` and `worker` have gates.
fn pod() -> Value {
    json!({
        "metadata": {"name": "ordered", "uid": "u1", "creationTimestamp": "2026-11-21T14:00:04Z", "annotations": {
            "sandbox.podgate.io/id": SANDBOX, "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
            "sandbox.podgate.io/phase": "starting", "sandbox.podgate.io/order": "db,api,web,worker",
            "sandbox.podgate.io/seen": "2026-11-21T14:00:10Z",
            "status.podgate.io/db": "Started", "status.podgate.io/api": "Waiting",
            "status.podgate.io/web": "Waiting", "status.podgate.io/worker": "Waiting"}},
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "once"}, {"name": "podgate", "restartPolicy": "Always", "command": ["/usr/bin/podgate-controller"]}],
            "containers": [hook("db", &[]), hook("api", &[]), gate("web", &["db", "api"]), gate("worker", &["db=Started", "db=Completed"])]},
        "status": {"initContainerStatuses": [{"name": "podgate", "state": {"running": {"startedAt": "2026-11-21T14:00:05Z"}}}]}
    })
}

fn parse_pod(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Formats each effect as `CONTAINER: CONDITIONS | STILL UNMET | NEXT`.
fn effects(plan: &OverridePlan) -> Vec<String> {
    let all = plan.changes.iter().flat_map(|change| &change.opens);
    let describe = |o: &GateEffect| {
        let next = o.then_starts.as_deref().unwrap_or("-");
        format!("{}: {} | {} | {next}", o.gate_of, o.conditions.join(" "), o.still_waits_for.join(" "))
    };
    all.map(describe).collect()
}

#[test]
fn plan_lists_annotations_and_effects() {
    let pod = parse_pod(&pod());
    let plan = plan_set(&pod, "shop", &[target("db", State::Ready)], now()).unwrap();
    assert_eq!(plan.changes[0].annotation, "override.podgate.io/db");
    assert_eq!(plan.changes[0].value.as_deref(), Some("Ready@3f2a9c1e-4097-1a0c5f3b"));
    assert_eq!(plan.changes[0].state, Some("Started"));
    assert_eq!(effects(&plan), ["db: db=Ready |  | api", "web: db=Ready | api=Ready | -"]);
    let both = plan_set(&pod, "shop", &[target("db", State::Ready), target("api", State::Ready)], now()).unwrap();
    assert_eq!(
        effects(&both),
        ["db: db=Ready |  | api", "web: db=Ready |  | -", "api: api=Ready |  | web", "web: api=Ready |  | -"]
    );
    let step = plan_set(&pod, "shop", &[target("db", State::Completed)], now()).unwrap();
    assert_eq!(effects(&step), ["worker: db=Completed |  | -"]);
    assert!(effects(&plan_set(&pod, "shop", &[target("worker", State::Ready)], now()).unwrap()).is_empty());
}

#[test]
fn open_gates_are_not_listed_again() {
    let mut started = pod();
    started["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("started");
    started["metadata"]["annotations"]["status.podgate.io/web"] = json!("Started");
    let plan = plan_set(&parse_pod(&started), "shop", &[target("db", State::Ready)], now()).unwrap();
    assert!(effects(&plan).is_empty());
    // Because api runs, db's hook must have returned.
    let mut later = pod();
    later["metadata"]["annotations"]["status.podgate.io/api"] = json!("Started");
    let plan = plan_set(&parse_pod(&later), "shop", &[target("db", State::Ready)], now()).unwrap();
    assert_eq!(effects(&plan), ["web: db=Ready | api=Ready | -"]);
}

#[test]
fn overrides_open_the_gates_of_held_containers() {
    let opened =
        |pod: &Value| effects(&plan_set(&parse_pod(pod), "shop", &[target("db", State::Ready)], now()).unwrap());
    let mut pod = held();
    assert_eq!(opened(&pod), ["api: db=Ready |  | -"]);
    pod["metadata"]["annotations"]["status.podgate.io/api"] = json!("TimedOut");
    assert_eq!(opened(&pod), ["api: db=Ready |  | -"]);
    pod["metadata"]["annotations"]["status.podgate.io/api"] = json!("Violated");
    pod["status"]["containerStatuses"][1] = running("api", true);
    assert!(opened(&pod).is_empty());
    let plan = plan_set(&parse_pod(&pod), "shop", &[target("db", State::Ready)], now()).unwrap();
    assert_eq!(plan.phase, None, "the sidecar is not idle");
}

#[test]
fn impossible_overrides_are_rejected() {
    let table: [(&str, &str, Change); 9] = [
        ("missing", "the Pod has no container missing; it has db, api, web, worker", |_| {}),
        ("podgate", "podgate is podgate's sidecar", |_| {}),
        ("once", "once is an init container", |_| {}),
        ("db", "is being deleted", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z")),
        ("db", "sandbox is unknown, so no state can be set. The sidecar runs, but has published nothing", |pod| {
            pod["metadata"]["annotations"] = json!({});
        }),
        ("db", "sandbox is unknown, so no state can be set. The Pod has no podgate sidecar, hook or gate", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("db", "sandbox is unknown, so no state can be set. The published state is invalid", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/id"] = json!("x");
        }),
        ("db", "the published state is outdated (the sidecar has restarted since); retry", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("db", "the sidecar does not track db", |pod| {
            pod["metadata"]["annotations"].as_object_mut().unwrap().remove("status.podgate.io/db");
        }),
    ];
    for (container, expected, change) in table {
        let mut pod = pod();
        change(&mut pod);
        let error = plan_set(&parse_pod(&pod), "shop", &[target(container, State::Ready)], now()).unwrap_err();
        assert!(error.contains(expected), "{container}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn docs_show_this_output() {
    let done = OverrideOutcome {
        at: "2026-11-21T14:00:12Z".to_owned(),
        server: "https://10.0.0.1:6443/".to_owned(),
        namespace: "shop".to_owned(),
        pod: "ordered".to_owned(),
        uid: "7d1f0c9a-41c5-4a7e-9e0b-1f1d2c3b4a5d".to_owned(),
        by: Some("alice".to_owned()),
        dry_run: false,
        plan: plan_set(&parse_pod(&pod()), "shop", &[target("db", State::Ready)], now()).unwrap(),
    };
    let written = text::render(&done);
    let docs = include_str!("../../../../docs/kubectl-podgate.md");
    assert!(docs.contains(&written), "docs/kubectl-podgate.md should contain:\n{written}");
    let json = serde_json::to_value(&done).unwrap();
    for at in ["", "/changes/0", "/changes/0/opens/0"] {
        for key in json.pointer(at).unwrap().as_object().unwrap().keys() {
            assert!(docs.contains(&format!("`{key}`")), "docs/kubectl-podgate.md does not name {key}");
        }
    }
}

//! Tests that changes of the user's own parts after an injection are found.

use super::{Injected, injected, options};
use crate::check::server::with_defaults;
use podgate::order::finding::Level;
use podgate::order::inject::{Options, inject, outdated};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

fn pod(more: &[(&str, &str)]) -> Value {
    let container = |name: &str, port: u16| {
        json!({"name": name, "image": name, "command": [name], "ports": [{"name": "main", "containerPort": port}],
               "readinessProbe": {"tcpSocket": {"port": "main"}}})
    };
    let mut pod = json!({"metadata": {"generateName": "p-", "annotations": {"podgate.io/order": "db, api, web"}},
           "spec": {"containers": [container("db", 1), container("api", 2), container("web", 3)]}});
    for (key, value) in more {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    pod
}

const LEAN: &[(&str, &str)] = &[("podgate.io/sidecar", "none")];
const GATES: &[(&str, &str)] = &[];
const HOLD: &[(&str, &str)] = &[("podgate.io/mode", "hold")];
const HOOKS: &[(&str, &str)] = &[("podgate.io/mode", "post-start")];

/// Returns the finding for a template, as `check` gets it.
fn found(template: &Value) -> Option<(Level, String)> {
    let Injected { value, .. } = injected(template);
    outdated(template, &value).map(|finding| (finding.level, finding.message))
}

fn set(template: &mut Value, at: &str, value: Value) {
    *template.pointer_mut(at).unwrap_or_else(|| panic!("no {at}")) = value;
}

fn annotate(template: &mut Value, key: &str, value: &str) {
    template["metadata"]["annotations"][key] = json!(value);
}

type Change = (&'static str, fn(&mut Value));

/// Changes of the user's own parts.
const CHANGES: [Change; 9] = [
    ("the order", |it| annotate(it, "podgate.io/order", "db, web, api")),
    ("a condition", |it| annotate(it, "podgate.io/order", "db=Started, api, web")),
    ("a number in a probe", |it| set(it, "/spec/containers/0/readinessProbe/tcpSocket/port", json!(5))),
    ("a named port", |it| set(it, "/spec/containers/0/ports/0/containerPort", json!(5))),
    ("a period", |it| it["spec"]["containers"][1]["readinessProbe"]["periodSeconds"] = json!(2)),
    ("a limit", |it| annotate(it, "podgate.io/timeout", "77s")),
    ("a stop order", |it| annotate(it, "podgate.io/stop-order", "reverse")),
    ("a new container", |it| {
        annotate(it, "podgate.io/order", "db, api, web, more");
        it["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "more", "image": "m", "command": ["m"]}));
    }),
    ("no order", |it| _ = it["metadata"]["annotations"].as_object_mut().unwrap().remove("podgate.io/order")),
];

#[test]
fn each_change_of_the_users_parts_is_an_error() {
    // The other changes need a sidecar.
    let lean = [0, 2, 3, 4, 5, 7, 8].map(|at| CHANGES[at]);
    for (mode, changes) in [(LEAN, &lean[..]), (GATES, &CHANGES), (HOLD, &CHANGES), (HOOKS, &CHANGES)] {
        let once = injected(&pod(mode)).value;
        assert_eq!(found(&once), None, "{mode:?}");
        for (what, change) in changes {
            let mut changed = once.clone();
            change(&mut changed);
            let finding = found(&changed).unwrap_or_else(|| panic!("{mode:?}: {what}"));
            assert_eq!(finding.0, Level::Error, "{mode:?}: {what}: {}", finding.1);
            // A second injection repairs the template.
            assert_eq!(found(&injected(&changed).value), None, "{mode:?}: {what}");
        }
    }
}

#[test]
fn message_names_the_container_the_field_and_both_values() {
    let message = |mode, change: fn(&mut Value)| {
        let mut changed = injected(&pod(mode)).value;
        change(&mut changed);
        found(&changed).map(|(_, message)| message).unwrap_or_default()
    };
    for (mode, change, expected) in [
        (GATES, CHANGES[2].1, "db.readinessProbe.tcpSocket.port is main in the sidecar's list, but 5 in the manifest"),
        (GATES, CHANGES[0].1, "api.until is [db] in the sidecar's list, but [db,web] in the manifest"),
        (
            GATES,
            CHANGES[4].1,
            "api.readinessProbe.periodSeconds is not set in the sidecar's list, but 2 in the manifest",
        ),
        (
            HOOKS,
            |it| annotate(it, "podgate.io/order", "api, db, web"),
            "api.position is 1 in the sidecar's list, but 0 in the manifest",
        ),
        (GATES, CHANGES[5].1, "inject writes --timeout 1m17s in place of --timeout 5m in podgate's gate of api"),
        (LEAN, CHANGES[3].1, "inject writes --ask db tcp://:5 in place of --ask db tcp://:1 in podgate's gate of api"),
        (GATES, CHANGES[8].1, "the manifest has parts of podgate, but declares no order that needs them"),
    ] {
        assert_eq!(message(mode, change), expected);
    }
}

#[test]
fn other_changes_of_the_user_are_no_finding() {
    for mode in [LEAN, GATES, HOLD, HOOKS] {
        let mut changed = injected(&pod(mode)).value;
        annotate(&mut changed, "example.com/note", "x");
        set(&mut changed, "/spec/containers/2/image", json!("web:2"));
        changed["spec"]["containers"][1]["env"] = {
            let mut env = changed["spec"]["containers"][1]["env"].as_array().cloned().unwrap_or_default();
            env.push(json!({"name": "A", "value": "1"}));
            env.into()
        };
        assert_eq!(found(&changed), None, "{mode:?}");
    }
}

#[test]
fn other_settings_and_versions_are_a_note() {
    let by = Options { sidecar_resources: json!({"limits": {"memory": "99Mi"}}), ..options() };
    let other = inject(&pod(GATES), &by, &KnownFacts::default()).unwrap().value;
    assert_eq!(found(&other).map(|(level, _)| level), Some(Level::Note));
    let mut old = injected(&pod(GATES)).value;
    set(&mut old, "/spec/initContainers/0/image", json!("ghcr.io/podgate/podgate:0.0.9"));
    // Another version can write other flags and other fields of the list.
    let text = old["metadata"]["annotations"]["podgate.io/injected"].as_str().unwrap().replace("0.1.0", "0.0.9");
    annotate(&mut old, "podgate.io/injected", &text);
    let (level, message) = found(&old).unwrap();
    assert_eq!(level, Level::Note, "{message}");
    assert!(message.ends_with("now writes other parts than podgate 0.0.9 has written"), "{message}");
    set(&mut old, "/spec/containers/0/readinessProbe/tcpSocket/port", json!(5));
    assert_eq!(found(&old).map(|(level, _)| level), Some(Level::Error));
}

/// In the cluster, other webhooks and the API server change Pods too.
#[test]
fn only_certain_differences_of_a_running_pod_are_found() {
    for mode in [LEAN, GATES, HOLD, HOOKS] {
        let mut live = with_defaults(injected(&pod(mode)).value);
        live["metadata"]["uid"] = json!("u1");
        live["metadata"]["annotations"]["status.podgate.io/db"] = json!("Ready");
        let containers = live["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "istio-proxy", "image": "i"}));
        containers[0]["resources"] = json!({"limits": {"memory": "1Gi"}});
        containers[1]["readinessProbe"] = json!({"httpGet": {"path": "/app-health/api/readyz", "port": 15020}});
        live["spec"]["terminationGracePeriodSeconds"] = json!(60);
        let finding = |live: &Value| {
            let options = Options { is_from_api: true, ..Options::new("podgate") };
            // `status` is silent if the order of the Pod cannot be injected again.
            let new = inject(live, &options, &KnownFacts::default()).ok()?;
            outdated(live, &new.value).map(|finding| finding.level)
        };
        assert_eq!(finding(&live), None, "{mode:?}");
        live["spec"]["containers"][1]["readinessProbe"] = live["spec"]["containers"][2]["readinessProbe"].clone();
        assert_eq!(finding(&live), None, "{mode:?}");
        set(&mut live, "/spec/containers/0/readinessProbe/tcpSocket/port", json!(5));
        assert_eq!(finding(&live), Some(Level::Error), "{mode:?}");
    }
    let mut live = with_defaults(injected(&pod(GATES)).value);
    live["metadata"]["uid"] = json!("u1");
    annotate(&mut live, "podgate.io/order", "db, web, api");
    assert_eq!(found(&live).map(|(level, _)| level), Some(Level::Error), "the gates do not follow the annotation");
}

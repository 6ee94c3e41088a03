//! Tests of views of whole Pods.

use super::shape::{Row, View};
use super::view::view;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Returns the time two seconds after the annotation `seen` of the Pods below.
pub(crate) fn now() -> SystemTime {
    humantime::parse_rfc3339("2026-11-21T14:00:12Z").unwrap()
}

pub(crate) fn hook(name: &str, more: &[&str]) -> Value {
    let line = [&["/podgate/bin/podgate", "post-start", "--container", name, "--timeout", "2m"], more].concat();
    json!({"name": name, "lifecycle": {"postStart": {"exec": {"command": line}}}})
}

pub(crate) fn gate(name: &str, conditions: &[&str]) -> Value {
    let mut line = vec!["/podgate/bin/podgate", "entrypoint"];
    line.extend(conditions.iter().flat_map(|until| ["--until", until]));
    json!({"name": name, "command": line})
}

fn creating(name: &str) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}})
}

pub(crate) fn running(name: &str, ready: bool) -> Value {
    json!({"name": name, "ready": ready, "state": {"running": {"startedAt": "2026-11-21T14:00:05Z"}}})
}

/// Returns a Pod with db, api and web in this order, as the API shows it while db's hook waits.
pub(crate) fn chain() -> Value {
    let mut db = hook("db", &[]);
    db["readinessProbe"] = json!({"tcpSocket": {"port": 5432}});
    json!({
        "metadata": {"name": "ordered", "creationTimestamp": "2026-11-21T14:00:04Z"},
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{"name": "podgate", "restartPolicy": "Always", "command": ["/usr/bin/podgate-controller"]}],
            "containers": [db, hook("api", &[]), {"name": "web"}],
        },
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [running("podgate", true)],
            "containerStatuses": [creating("db"), creating("api"), creating("web")],
        }
    })
}

/// Returns a Pod in which the kubelet holds api until db is Ready, and web until api is Ready.
pub(crate) fn held() -> Value {
    let waiting = |name: &str| {
        let file = format!("/var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/podgate-hold/keys/{name}");
        let message = format!("environment variable key \"OPEN\" not found in file {file:?}");
        json!({"name": name, "image": format!("registry.example.com/{name}:1"), "imageID": "", "lastState": {}, "ready": false,
               "restartCount": 0, "started": false,
               "state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}})
    };
    // As the API shows the list: `$$` is the escaped form of `$`.
    let list = r#"[{"name":"db","readinessProbe":{"exec":{"command":["pg_isready","-U","$$(USER)$$$$"]}}},
        {"name":"api","mode":"hold","until":["db=Ready"],"timeoutSeconds":300},
        {"name":"web","mode":"hold","until":["api=Ready"],"timeoutSeconds":90,"continueOnTimeout":true}]"#;
    let spec = |name: &str| {
        let key = json!({"volumeName": "podgate-hold", "path": format!("keys/{name}"), "key": "OPEN"});
        json!({"name": name, "env": [{"name": "PODGATE_HOLD", "valueFrom": {"fileKeyRef": key}}]})
    };
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!("1795269605250,db=started+1000;since+1000,api=gate+0,web=gate+0");
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value": list}]);
    pod["spec"]["containers"] = json!([{"name": "db"}, spec("api"), spec("web")]);
    pod["status"]["containerStatuses"] = json!([running("db", false), waiting("api"), waiting("web")]);
    pod
}

/// Adds the annotations that the sidecar publishes.
pub(crate) fn with_published(mut pod: Value, phase: &str, states: [&str; 3]) -> Value {
    pod["metadata"]["annotations"] = json!({
        "sandbox.podgate.io/id": "3f2a9c1e-4097-1a0c5f3b", "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
        "sandbox.podgate.io/phase": phase, "sandbox.podgate.io/order": "db,api,web",
        "sandbox.podgate.io/seen": "2026-11-21T14:00:10Z",
        "sandbox.podgate.io/times": "1795269606250,db=started+0;since+0",
        "status.podgate.io/db": states[0], "status.podgate.io/api": states[1], "status.podgate.io/web": states[2],
    });
    pod
}

pub(crate) fn view_of(pod: &Value) -> View {
    view(&serde_json::from_value(pod.clone()).unwrap(), "shop", now())
}

/// Returns `NAME: CONDITIONS | HELD-BACK CONTAINERS` of each container that has either.
fn waits(view: &View) -> Vec<String> {
    let rows = view.containers.iter().filter(|row| !row.waits_for.is_empty() || !row.holds_back.is_empty());
    let describe = |row: &Row| {
        let conditions: Vec<String> =
            row.waits_for.iter().map(|c| format!("{} ({})", c.condition, c.standing)).collect();
        format!("{}: {} | {}", row.name, conditions.join(", "), row.holds_back.join(", "))
    };
    rows.map(describe).collect()
}

#[test]
fn waits_follow_the_progress_of_the_start() {
    let (db, api) = ("db=Ready (not-yet)", "api=Ready (not-yet)");
    let of_db = vec![format!("db: {db} | api, web"), format!("api: {db} | web"), format!("web: {db}, {api} | ")];
    let of_api = vec![format!("api: {api} | web"), format!("web: {api} | ")];
    for (phase, states, expected) in [
        // The sidecar has just started.
        ("starting", ["Waiting", "Waiting", "Waiting"], of_db.clone()),
        ("starting", ["Started", "Waiting", "Waiting"], of_db),
        // db's hook has been released, and the kubelet starts api next.
        ("starting", ["Ready", "Waiting", "Waiting"], of_api.clone()),
        ("starting", ["Ready", "Started", "Waiting"], of_api.clone()),
        // Because api runs, db's hook has returned, even if db is no longer Ready.
        ("starting", ["NotReady", "Started", "Waiting"], of_api),
        ("started", ["Ready", "Ready", "Started"], vec![]),
        ("started", ["Failed", "Ready", "Started"], vec![]),
        ("terminating", ["Started", "Waiting", "Waiting"], vec![]),
    ] {
        let view = view_of(&with_published(chain(), phase, states));
        assert_eq!(waits(&view), expected, "{phase} {states:?}");
        assert_eq!(view.started, phase == "started");
    }
}

#[test]
fn impossible_conditions_are_marked_never() {
    let mut pod = with_published(chain(), "starting", ["Failed", "Waiting", "Waiting"]);
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    let view = view_of(&pod);
    assert!(waits(&view)[0].starts_with("db: db=Ready (never) |"), "{:?}", waits(&view));
    assert!(view.notes.iter().any(|note| note.starts_with("db has ended, and the kubelet will not restart it")));
}

#[test]
fn a_gate_blocks_only_its_own_container() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"] = json!([{"name": "db"}, gate("api", &["db"]), gate("web", &["db=Started"])]);
    assert_eq!(waits(&view_of(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
    // The gate of a restarted container is closed, although the Pod has started.
    pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("started");
    assert_eq!(waits(&view_of(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
}

#[test]
fn checks_and_unpublished_conditions_are_unknown() {
    let mut pod = with_published(chain(), "starting", ["Ready", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0] = hook("db", &["--check", "tcp://127.0.0.1:1"]);
    assert_eq!(waits(&view_of(&pod))[0], "db: tcp://127.0.0.1:1 (unknown) | api, web");

    let view = view_of(&chain());
    let unknown = "db=Ready (unknown)";
    assert_eq!(waits(&view)[..2], [format!("db: {unknown} | api, web"), format!("api: {unknown} | web")]);
    assert!(!view.started);
    assert!(view.notes[0].starts_with("The sidecar runs, but has published nothing"), "{:?}", view.notes);
}

#[test]
fn kubelet_status_counts_if_nothing_is_published() {
    let mut pod = chain();
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", false)]);
    let view = view_of(&pod);
    assert!(view.started && waits(&view).is_empty());
}

#[test]
fn since_has_its_source_or_is_absent() {
    let since = |pod: &Value| {
        let describe = |row: &Row| row.since.as_ref().map(|s| format!("{} {} {}", row.name, s.seconds_ago, s.by));
        view_of(pod).containers.iter().filter_map(describe).collect::<Vec<_>>()
    };
    // Waiting containers have been waiting since the sidecar started.
    let pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    assert_eq!(since(&pod), ["podgate 7 kubelet", "db 5 podgate", "api 7 kubelet", "web 7 kubelet"]);
    let mut gated = pod.clone();
    gated["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!("1795269602000,api=gate+1000,web=since+2000");
    assert_eq!(since(&gated), ["podgate 7 kubelet", "api 9 podgate", "web 8 podgate"]);
    // Times of a previous sidecar are ignored.
    let mut stale = pod.clone();
    stale["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-21T14:00:01Z");
    assert_eq!(since(&stale), ["podgate 7 kubelet"]);
    let mut frozen = chain();
    frozen["status"]["containerStatuses"] = json!([running("db", true),
        {"name": "api", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T14:00:09Z"}}}]);
    assert_eq!(since(&frozen), ["podgate 7 kubelet", "db 7 kubelet", "api 3 kubelet"]);
}

#[test]
fn conditions_describe_what_is_needed() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0]["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened"]}});
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": "web"}});
    pod["spec"]["containers"][2] =
        gate("web", &["db", "api=Ready", "api=Completed", "api=Exited", "api=Started", "gone=Ready"]);
    let takes = |pod: &Value| {
        let view = view_of(pod);
        view.containers[3].waits_for.iter().map(|c| format!("{}: {}", c.condition, c.takes)).collect::<Vec<_>>()
    };
    let all = [
        "db=Ready: db must pass its readinessProbe (httpGet :web/)",
        "api=Ready: api must start (it has no probe)",
        "api=Completed: api must exit with 0",
        "api=Exited: api must exit",
        "api=Started: api must start",
        "gone=Ready: the Pod has no container gone",
    ];
    assert_eq!(takes(&pod), all);
    // The sidecar's list has the application's own probes. The list takes precedence over the spec.
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db","startupProbe":{"exec":{"command":["sh","-c","$$(x)"]}},"readinessProbe":{"grpc":{"port":9}}}]"#}]);
    assert_eq!(
        takes(&pod)[0],
        "db=Ready: db must pass its startupProbe (exec sh -c $(x)), then its readinessProbe (grpc :9)"
    );
    pod["metadata"]["annotations"]["status.podgate.io/db"] = json!("Failed");
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    assert_eq!(takes(&pod)[0], "db=Ready: db has ended for good; create a new Pod, or override its state");
}

/// Function that changes a Pod.
pub(crate) type Change = fn(&mut Value);

#[test]
fn notes_explain_unusual_situations() {
    let table: [(&str, Change); 14] = [
        ("While the hook of db waits (at most 2m), the kubelet does not update", |_| {}),
        ("Nothing is published yet: the Pod has no node.", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["nodeName"] = Value::Null;
        }),
        ("Nothing is published yet: the sidecar podgate is not running (ImagePullBackOff).", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["status"]["initContainerStatuses"][0]["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
        }),
        ("podgate is stuck: ImagePullBackOff (no such image).", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        }),
        ("The Pod has no sidecar: its hooks run their own checks", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["initContainers"] = json!([]);
        }),
        ("The Pod has no podgate sidecar, hook or gate", |pod| {
            pod["metadata"]["annotations"] = json!({"a": "b"});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("The published state is invalid: sandbox.podgate.io/phase is missing or malformed.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("done");
        }),
        ("The published state is ignored: it is older than the Pod, so it comes from the Pod's template", |pod| {
            pod["metadata"]["creationTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-20T14:00:00Z");
        }),
        ("The published state is ignored: the sidecar has restarted since", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("The kubelet stops nothing while a hook waits", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
        }),
        ("The sidecar has noticed the deletion", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("terminating");
        }),
        ("An operator has set db to Ready by hand", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@3f2a9c1e-4097-1a0c5f3b");
        }),
        ("override.podgate.io/db=Ready@x has no effect", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@x");
        }),
        ("api: the kubelet reports not ready now.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("started");
            pod["metadata"]["annotations"]["status.podgate.io/api"] = json!("Ready");
            pod["status"]["containerStatuses"] = json!([running("api", false)]);
        }),
    ];
    for (expected, change) in table {
        let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
        change(&mut pod);
        let view = view_of(&pod);
        assert!(view.notes.iter().any(|note| note.contains(expected)), "{expected}: {:#?}", view.notes);
    }
}

#[test]
fn a_healthy_started_pod_has_no_notes() {
    let mut pod = with_published(chain(), "started", ["Ready", "Ready", "Ready"]);
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", true)]);
    let view = view_of(&pod);
    assert_eq!((view.started, view.notes.len(), view.summary.as_str()), (true, 0, "Pod shop/ordered has started."));
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
    assert!(!view_of(&pod).started);
}

//! Whole pods, and what is said of them.

use super::shape::{Row, View};
use super::view::view;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Two seconds after the last look of the pods below.
pub(crate) fn now() -> SystemTime {
    humantime::parse_rfc3339("2026-11-21T14:00:12Z").unwrap()
}

pub(crate) fn hook(name: &str, more: &[&str]) -> Value {
    let line = [&["/podgate/bin/podgate", "post-start", "--container", name, "--timeout", "2m"], more].concat();
    json!({"name": name, "lifecycle": {"postStart": {"exec": {"command": line}}}})
}

pub(crate) fn gate(name: &str, untils: &[&str]) -> Value {
    let mut line = vec!["/podgate/bin/podgate", "entrypoint"];
    line.extend(untils.iter().flat_map(|until| ["--until", until]));
    json!({"name": name, "command": line})
}

fn creating(name: &str) -> Value {
    json!({"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}})
}

fn running(name: &str, ready: bool) -> Value {
    json!({"name": name, "ready": ready, "state": {"running": {"startedAt": "2026-11-21T14:00:05Z"}}})
}

/// The chain db, api, web, with hooks, as the API shows it while db's hook waits.
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

/// Adds what the sidecar publishes.
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

/// `NAME: what it waits for | what it holds back`, for those of which there is something to say.
fn waits(view: &View) -> Vec<String> {
    let rows = view.containers.iter().filter(|row| !row.waits_for.is_empty() || !row.holds_back.is_empty());
    let say = |row: &Row| {
        let conditions: Vec<String> =
            row.waits_for.iter().map(|c| format!("{} ({})", c.condition, c.standing)).collect();
        format!("{}: {} | {}", row.name, conditions.join(", "), row.holds_back.join(", "))
    };
    rows.map(say).collect()
}

#[test]
fn shows_what_waits_for_what_as_the_start_goes_on() {
    let (db, api) = ("db=Ready (not-yet)", "api=Ready (not-yet)");
    let of_db = vec![format!("db: {db} | api, web"), format!("api: {db} | web"), format!("web: {db}, {api} | ")];
    let of_api = vec![format!("api: {api} | web"), format!("web: {api} | ")];
    for (phase, states, says) in [
        // The sidecar has just begun.
        ("starting", ["Waiting", "Waiting", "Waiting"], of_db.clone()),
        ("starting", ["Started", "Waiting", "Waiting"], of_db),
        // db's hook has been let go; the kubelet starts api next.
        ("starting", ["Ready", "Waiting", "Waiting"], of_api.clone()),
        ("starting", ["Ready", "Started", "Waiting"], of_api.clone()),
        // api runs, so db's hook has returned, whatever became of db since.
        ("starting", ["NotReady", "Started", "Waiting"], of_api),
        ("started", ["Ready", "Ready", "Started"], vec![]),
        ("started", ["Failed", "Ready", "Started"], vec![]),
        ("terminating", ["Started", "Waiting", "Waiting"], vec![]),
    ] {
        let view = view_of(&with_published(chain(), phase, states));
        assert_eq!(waits(&view), says, "{phase} {states:?}");
        assert_eq!(view.started, phase == "started");
    }
}

#[test]
fn what_can_never_be_is_told_from_what_is_not_yet() {
    let mut pod = with_published(chain(), "starting", ["Failed", "Waiting", "Waiting"]);
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    let view = view_of(&pod);
    assert!(waits(&view)[0].starts_with("db: db=Ready (never) |"), "{:?}", waits(&view));
    assert!(view.notes.iter().any(|note| note.starts_with("db has ended, and the kubelet will not start it again")));
}

#[test]
fn a_gate_holds_its_own_container_alone() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"] = json!([{"name": "db"}, gate("api", &["db"]), gate("web", &["db=Started"])]);
    assert_eq!(waits(&view_of(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
    // A gate stays shut even when the pod has started: the container came anew.
    pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("started");
    assert_eq!(waits(&view_of(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
}

#[test]
fn of_checks_and_of_the_unpublished_nothing_is_known() {
    let mut pod = with_published(chain(), "starting", ["Ready", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0] = hook("db", &["--check", "tcp://127.0.0.1:1"]);
    assert_eq!(waits(&view_of(&pod))[0], "db: tcp://127.0.0.1:1 (unknown) | api, web");

    let view = view_of(&chain());
    let unknown = "db=Ready (unknown)";
    assert_eq!(waits(&view)[..2], [format!("db: {unknown} | api, web"), format!("api: {unknown} | web")]);
    assert!(!view.started);
    assert!(view.notes[0].starts_with("Nothing is published, and the sidecar runs"), "{:?}", view.notes);
}

#[test]
fn without_a_word_the_kubelets_counts() {
    let mut pod = chain();
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", false)]);
    let view = view_of(&pod);
    assert!(view.started && waits(&view).is_empty());
}

#[test]
fn says_since_when_by_whom_and_nothing_where_it_is_not_known() {
    let since = |pod: &Value| {
        let said = |row: &Row| row.since.as_ref().map(|s| format!("{} {} {}", row.name, s.seconds_ago, s.by));
        view_of(pod).containers.iter().filter_map(said).collect::<Vec<_>>()
    };
    // What waits, waits since the sidecar has been there.
    let pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    assert_eq!(since(&pod), ["podgate 7 kubelet", "db 5 podgate", "api 7 kubelet", "web 7 kubelet"]);
    let mut gated = pod.clone();
    gated["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!("1795269602000,api=gate+1000,web=since+2000");
    assert_eq!(since(&gated), ["podgate 7 kubelet", "api 9 podgate", "web 8 podgate"]);
    // An earlier sidecar's word counts for this as little as for anything else.
    let mut stale = pod.clone();
    stale["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-21T14:00:01Z");
    assert_eq!(since(&stale), ["podgate 7 kubelet"]);
    let mut frozen = chain();
    frozen["status"]["containerStatuses"] = json!([running("db", true),
        {"name": "api", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T14:00:09Z"}}}]);
    assert_eq!(since(&frozen), ["podgate 7 kubelet", "db 7 kubelet", "api 3 kubelet"]);
}

#[test]
fn says_what_each_condition_would_take() {
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
        "api=Ready: api has no probe: it must be started",
        "api=Completed: api must exit with 0",
        "api=Exited: api must exit",
        "api=Started: api must be started",
        "gone=Ready: the Pod has no container gone",
    ];
    assert_eq!(takes(&pod), all);
    // The sidecar has the application's own probes, whatever stands in the spec now.
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db","startupProbe":{"exec":{"command":["sh","-c","$$(x)"]}},"readinessProbe":{"grpc":{"port":9}}}]"#}]);
    assert_eq!(
        takes(&pod)[0],
        "db=Ready: db must pass its startupProbe (exec sh -c $(x)), then its readinessProbe (grpc :9)"
    );
    pod["metadata"]["annotations"]["status.podgate.io/db"] = json!("Failed");
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    assert_eq!(takes(&pod)[0], "db=Ready: db has ended for good: a new Pod, or an override");
}

/// A pod, made odd.
pub(crate) type Change = fn(&mut Value);

#[test]
fn says_what_is_odd() {
    let table: [(&str, Change); 14] = [
        ("While the hook of db waits (at most 2m), the kubelet updates nothing", |_| {}),
        ("Nothing is published yet: the Pod has no node.", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["nodeName"] = Value::Null;
        }),
        ("Nothing is published yet: the kubelet says of the sidecar podgate: ImagePullBackOff.", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["status"]["initContainerStatuses"][0]["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
        }),
        ("podgate can't go on by itself: ImagePullBackOff (no such image).", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        }),
        ("No sidecar is in its spec", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["initContainers"] = json!([]);
        }),
        ("Neither a sidecar nor a hook or gate", |pod| {
            pod["metadata"]["annotations"] = json!({"a": "b"});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("What is published is not podgate's: sandbox.podgate.io/phase is missing or not valid.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("done");
        }),
        ("not believed here: it is older than the Pod, so it came with its template", |pod| {
            pod["metadata"]["creationTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-20T14:00:00Z");
        }),
        ("not believed here: the sidecar has been started anew since", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("The kubelet ends nothing while a hook waits", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
        }),
        ("The sidecar has seen the deletion", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("terminating");
        }),
        ("An operator has set db to Ready by hand", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@3f2a9c1e-4097-1a0c5f3b");
        }),
        ("override.podgate.io/db=Ready@x is not in force", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@x");
        }),
        ("api: the kubelet says not ready now.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("started");
            pod["metadata"]["annotations"]["status.podgate.io/api"] = json!("Ready");
            pod["status"]["containerStatuses"] = json!([running("api", false)]);
        }),
    ];
    for (says, change) in table {
        let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
        change(&mut pod);
        let view = view_of(&pod);
        assert!(view.notes.iter().any(|note| note.contains(says)), "{says}: {:#?}", view.notes);
    }
}

#[test]
fn a_pod_at_rest_is_nothing_odd() {
    let mut pod = with_published(chain(), "started", ["Ready", "Ready", "Ready"]);
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", true)]);
    let view = view_of(&pod);
    assert_eq!((view.started, view.notes.len(), view.summary.as_str()), (true, 0, "Pod shop/ordered has started."));
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
    assert!(!view_of(&pod).started);
}

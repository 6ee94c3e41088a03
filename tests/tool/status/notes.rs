//! Tests of the first line and the notes of `status`.

use crate::pods::{Change, chain, notes, running, status_json, with_published};
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

#[test]
fn notes_explain_unusual_situations() {
    let table: [(&str, Change); 12] = [
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
        ("The Pod declares an order, but was created without podgate's sidecar", |pod| {
            pod["metadata"]["annotations"] = json!({"podgate.io/order": "db, api"});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("The published state is invalid: sandbox.podgate.io/stage is missing or malformed.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("done");
        }),
        ("The published state is ignored: it is older than the Pod, so it comes from the Pod's template", |pod| {
            pod["metadata"]["creationTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-20T14:00:00Z");
        }),
        ("The published state is ignored: the sidecar has restarted since", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("An operator has set db to Ready by hand", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@3f2a9c1e-4097-1a0c5f3b");
        }),
        ("override.podgate.io/db=Ready@x has no effect", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@x");
        }),
    ];
    for (expected, change) in table {
        let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
        change(&mut pod);
        let view = status_json(&pod);
        assert!(notes(&view).iter().any(|note| note.contains(expected)), "{expected}: {:#}", view["notes"]);
    }
}

#[test]
fn a_healthy_started_pod_has_no_notes() {
    let mut pod = with_published(chain(), "started", ["Ready", "Ready", "Ready"]);
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", true)]);
    let view = status_json(&pod);
    assert_eq!((&view["started"], &view["notes"]), (&json!(true), &json!([])));
    assert_eq!(view["summary"], "Pod shop/ordered has started.");
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
    assert_eq!(status_json(&pod)["started"], false);
}

#[test]
fn first_line_names_what_is_wrong() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let expected =
        "Pod shop/ordered is starting: db is stuck: CrashLoopBackOff; db holds back api, web until db=Ready.";
    assert_eq!(status_json(&pod)["summary"], expected);
    let pod = with_published(chain(), "started", ["NotReady", "Ready", "Failed"]);
    assert_eq!(status_json(&pod)["summary"], "Pod shop/ordered has started, but db is NotReady, and web is Failed.");
}

/// The messages are those of containerd 1.6, and of runc after an API server 1.34 has dropped the volume.
#[test]
fn node_without_image_volumes_is_named() {
    let gate = json!({"name": "api", "command": ["/podgate/bin/podgate", "entrypoint", "--ask", "db http://:80/", "--", "/api"]});
    let runc = "OCI runtime create failed: exec: \"/podgate/bin/podgate\": stat /podgate/bin/podgate: no such file or directory";
    let mkdir = "failed to generate container \"5d15\" spec: failed to generate spec: failed to mkdir \"\": mkdir : no such file or directory";
    for status in [
        json!({"name": "api", "state": {"waiting": {"reason": "CreateContainerError", "message": mkdir}}}),
        json!({"name": "api", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": runc}}}),
    ] {
        let pod = json!({"metadata": {"name": "ordered"}, "spec": {"nodeName": "n", "containers": [{"name": "db"}, gate]},
            "status": {"containerStatuses": [running("db", true), status]}});
        let view = status_json(&pod);
        assert_eq!(
            view["summary"],
            "Pod shop/ordered is starting: api cannot start on node n, which has no image volumes."
        );
        assert!(notes(&view).iter().any(|note| note.ends_with("or set podgate.io/sidecar: always and inject again.")));
    }
}

/// The Pod's manifest was changed after the injection, and applied without the webhook.
#[test]
fn outdated_injection_is_noted() {
    let container = |name: &str, port: u16| json!({"name": name, "image": name, "command": [name], "readinessProbe": {"tcpSocket": {"port": port}}});
    let plain = json!({"metadata": {"name": "ordered", "uid": "u1", "annotations": {"podgate.io/order": "db, api, web"}},
        "spec": {"nodeName": "node-1", "containers": [container("db", 1), container("api", 2), container("web", 3)]}});
    let injected = inject(&plain, &Options::new("podgate"), &KnownFacts::default()).unwrap().value;
    let cases: [(Change, &str); 4] = [
        (|_| (), ""),
        (|pod| pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}}), ""),
        (
            |pod| pod["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"] = json!(5),
            "db.readinessProbe.tcpSocket.port is 1 in the sidecar's list, but 5 in the manifest",
        ),
        (
            |pod| pod["metadata"]["annotations"]["podgate.io/order"] = json!("db, web, api"),
            "api.until is [db] in the sidecar's list, but [db,web] in the manifest",
        ),
    ];
    for (change, expected) in cases {
        let mut pod = injected.clone();
        change(&mut pod);
        let view = status_json(&pod);
        let found: Vec<&str> = notes(&view).into_iter().filter(|note| note.contains("outdated")).collect();
        let note =
            format!("The injected parts are outdated: {expected}. Inject the Pod's manifest again, and apply it.");
        assert_eq!(found, if expected.is_empty() { vec![] } else { vec![note.as_str()] });
    }
}

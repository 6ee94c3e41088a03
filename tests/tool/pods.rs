//! Pods in several states, as the API server returns them, and functions that run the program on them.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use crate::api_server::{Answer, FakeApiServer, Request};
use crate::screen::assert_screen;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const SANDBOX: &str = "3f2a9c1e-4097-1a0c5f3b";

pub(crate) type Change = fn(&mut Value);

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
        "metadata": {"name": "ordered", "uid": "u1", "creationTimestamp": "2026-11-21T14:00:04Z"},
        "spec": {
            "nodeName": "node-1",
            "initContainers": [{"name": "podgate", "restartPolicy": "Always", "command": ["/bin/podgate-controller"]}],
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
        let message = "couldn't parse env file";
        json!({"name": name, "image": format!("registry.example.com/{name}:1"), "imageID": "", "lastState": {}, "ready": false,
               "restartCount": 0, "started": false,
               "state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}})
    };
    // The API shows the list with `$$` in place of each `$`.
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
pub(crate) fn with_published(mut pod: Value, stage: &str, states: [&str; 3]) -> Value {
    pod["metadata"]["annotations"] = json!({
        "sandbox.podgate.io/id": "3f2a9c1e-4097-1a0c5f3b", "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
        "sandbox.podgate.io/stage": stage, "sandbox.podgate.io/order": "db,api,web",
        "sandbox.podgate.io/seen": "2026-11-21T14:00:10Z",
        "sandbox.podgate.io/times": "1795269606250,db=started+0;since+0",
        "status.podgate.io/db": states[0], "status.podgate.io/api": states[1], "status.podgate.io/web": states[2],
    });
    pod
}

/// Returns a server that has only this Pod.
pub(crate) fn serve(pod: &Value) -> FakeApiServer {
    let pod = pod.clone();
    FakeApiServer::new(move |_: &Request| Answer::Json(200, pod.clone()))
}

/// Asserts that `status` shows this screen for `pod`. All times of `pod` must be in the minute of 2026-11-21T14:00. This
/// function moves them to 150 minutes ago, so that each age is `2 h`, and shows the original times.
pub(crate) fn assert_status_screen(name: &str, pod: &Value, serve: impl FnOnce(&Value) -> FakeApiServer) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let minute = Duration::from_secs((now.as_secs() / 60 - 150) * 60);
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + minute).to_string();
    let (begin, original) = (time.strip_suffix("00Z").unwrap(), "2026-11-21T14:00:");
    let text = pod.to_string().replace(original, begin);
    // Published times are in milliseconds since 1970.
    let mut parts = text.split("17952696");
    let first = parts.next().unwrap().to_owned();
    let moved = parts.map(|part| {
        let (ms, rest) = part.split_at(5);
        format!("{}{rest}", minute.as_millis() + ms.parse::<u128>().unwrap())
    });
    let moved: String = std::iter::once(first).chain(moved).collect();
    let (code, out, err) = serve(&serde_json::from_str(&moved).unwrap()).run(&["status", "ordered"]);
    assert_screen(name, &["status", "ordered"], &(code, out.replace(begin, original), err));
}

/// Returns the output of `status`.
pub(crate) fn status_text(pod: &Value) -> String {
    let (_, out, err) = serve(pod).run(&["status", "ordered"]);
    assert_eq!(err, "");
    out
}

/// Returns the output of `status -o json`.
pub(crate) fn status_json(pod: &Value) -> Value {
    let (_, out, err) = serve(pod).run(&["status", "ordered", "-o", "json"]);
    assert_eq!(err, "");
    serde_json::from_str(&out).unwrap()
}

/// Returns the notes in the JSON output of `status` or `timeline`.
pub(crate) fn notes(view: &Value) -> Vec<&str> {
    view["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect()
}

/// Returns the items of a list of strings, joined by `separator`.
pub(crate) fn joined(list: &Value, separator: &str) -> String {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(separator)
}

pub(crate) fn docs() -> &'static str {
    include_str!("../../docs/watching.md")
}

/// Fails unless the docs name each field of these objects in `json`.
pub(crate) fn assert_fields_in_docs(json: &Value, places: &[&str]) {
    for place in places {
        for key in json.pointer(place).unwrap().as_object().unwrap().keys() {
            assert!(docs().contains(&format!("`{key}`")), "docs/watching.md does not name {key}");
        }
    }
}

/// Returns a Pod in which the hook of `db` holds back `api`. `version` is the Pod's resource version.
pub(crate) fn pod(version: u32, stage: &str, db: &str, api: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "ordered", "namespace": "shop", "uid": "u1", "resourceVersion": version.to_string(), "annotations": {
            "sandbox.podgate.io/id": SANDBOX, "sandbox.podgate.io/epoch": "e1",
            "sandbox.podgate.io/revision": version.to_string(), "sandbox.podgate.io/stage": stage,
            "sandbox.podgate.io/order": "db,api", "status.podgate.io/db": db, "status.podgate.io/api": api}},
        "spec": {"nodeName": "n", "containers": [
            {"name": "db", "lifecycle": {"postStart": {"exec": {"command": ["/podgate/bin/podgate", "post-start", "--container", "db"]}}}},
            {"name": "api"}]},
        "status": {"phase": "Pending", "containerStatuses": [
            {"name": "db", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "api", "state": {"waiting": {"reason": "ContainerCreating"}}}]}
    })
}

//! Tests of what the containers in `status` wait for, and since when.

use crate::pods::{chain, gate, hook, joined, notes, running, status_json, with_published};
use serde_json::{Value, json};

fn rows(view: &Value) -> &[Value] {
    view["containers"].as_array().unwrap()
}

/// Returns `NAME: CONDITIONS | HELD-BACK CONTAINERS` of each container that has either.
fn waits(view: &Value) -> Vec<String> {
    let describe = |row: &Value| {
        let conditions = row["waitsFor"].as_array().unwrap().iter();
        let conditions: Vec<String> = conditions
            .map(|c| format!("{} ({})", c["condition"].as_str().unwrap(), c["standing"].as_str().unwrap()))
            .collect();
        format!("{}: {} | {}", row["name"].as_str().unwrap(), conditions.join(", "), joined(&row["holdsBack"], ", "))
    };
    rows(view).iter().map(describe).filter(|text| !text.ends_with(":  | ")).collect()
}

#[test]
fn waits_follow_the_progress_of_the_start() {
    let (db, api) = ("db=Ready (not-yet)", "api=Ready (not-yet)");
    let of_db = vec![format!("db: {db} | api, web"), format!("api: {db} | web"), format!("web: {db}, {api} | ")];
    let of_api = vec![format!("api: {api} | web"), format!("web: {api} | ")];
    for (stage, states, expected) in [
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
        let view = status_json(&with_published(chain(), stage, states));
        assert_eq!(waits(&view), expected, "{stage} {states:?}");
        assert_eq!(view["started"], stage == "started");
    }
}

#[test]
fn impossible_conditions_are_marked_never() {
    let mut pod = with_published(chain(), "starting", ["Failed", "Waiting", "Waiting"]);
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    let view = status_json(&pod);
    assert!(waits(&view)[0].starts_with("db: db=Ready (never) |"), "{:?}", waits(&view));
    assert!(notes(&view).iter().any(|note| note.starts_with("db has ended, and the kubelet will not restart it")));
}

#[test]
fn a_gate_blocks_only_its_own_container() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"] = json!([{"name": "db"}, gate("api", &["db"]), gate("web", &["db=Started"])]);
    assert_eq!(waits(&status_json(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
    // The gate of a restarted container is closed, although the Pod has started.
    pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("started");
    assert_eq!(waits(&status_json(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
}

#[test]
fn checks_and_unpublished_conditions_are_unknown() {
    let mut pod = with_published(chain(), "starting", ["Ready", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0] = hook("db", &["--check", "tcp://127.0.0.1:1"]);
    assert_eq!(waits(&status_json(&pod))[0], "db: tcp://127.0.0.1:1 (unknown) | api, web");

    let mut gated = with_published(chain(), "starting", ["Waiting", "Waiting", "Waiting"]);
    gated["spec"]["containers"][0] = gate("db", &[]);
    let words = gated["spec"]["containers"][0]["command"].as_array_mut().unwrap();
    words.extend([json!("--check"), json!("file:///a")]);
    let view = status_json(&gated);
    assert_eq!(waits(&view)[0], "db: file:///a (unknown) | ");
    let takes = "the check must pass; its result is not published (see the container's log)";
    assert!(view.to_string().contains(takes), "{view:#}");

    let view = status_json(&chain());
    let unknown = "db=Ready (unknown)";
    assert_eq!(waits(&view)[..2], [format!("db: {unknown} | api, web"), format!("api: {unknown} | web")]);
    assert_eq!(view["started"], false);
    assert!(notes(&view)[0].starts_with("The sidecar has published nothing yet"), "{view:#}");
}

#[test]
fn kubelet_status_counts_if_nothing_is_published() {
    let mut pod = chain();
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", false)]);
    let view = status_json(&pod);
    assert!(view["started"] == true && waits(&view).is_empty(), "{view:#}");
}

/// The kubelet counts a container that waits in its gate as running. Without the role, nothing is published.
#[test]
fn pod_has_not_started_while_a_gate_waits() {
    let list = r#"[{"name":"migrate"},{"name":"api","mode":"entrypoint","until":["migrate=Completed"]}]"#;
    let mut pod = chain();
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value": list}]);
    let mut api = gate("api", &["migrate=Completed"]);
    api["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--wait"]}});
    pod["spec"]["containers"] = json!([{"name": "migrate"}, api]);
    for has_opened in [false, true] {
        let mut of_api = running("api", has_opened);
        of_api["started"] = json!(has_opened);
        pod["status"]["containerStatuses"] = json!([running("migrate", true), of_api]);
        let view = status_json(&pod);
        assert_eq!((&view["started"], waits(&view).is_empty()), (&json!(has_opened), has_opened), "{view:#}");
        let takes = "migrate must exit with 0; podgate sees this only with its role: kubectl podgate install";
        assert_eq!(view.to_string().contains(takes), !has_opened, "{view:#}");
    }
    // A restarted gate waits again, although the Pod has started before.
    let states = ["Started", "Waiting", "Ready"];
    let view = status_json(&with_published(pod, "started", states));
    assert!(view["started"] == false, "{view:#}");
}

/// For a gate without a startupProbe, the kubelet shows the start at once, but no Ready until the gate opens.
#[test]
fn gate_without_a_startup_probe_waits_while_its_dependency_is_not_ready() {
    let list = r#"[{"name":"db"},{"name":"api","mode":"entrypoint","until":["db"]}]"#;
    let mut pod = chain();
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value": list}]);
    pod["spec"]["containers"] = json!([{"name": "db"}, gate("api", &["db"])]);
    let ended = |code: i32| json!({"name": "api", "ready": false, "state": {"terminated": {"exitCode": code}}});
    for (db, api, started) in [
        (false, running("api", false), false),
        (true, running("api", false), true),
        (false, running("api", true), true),
        (false, ended(0), true),
        (false, ended(75), false),
    ] {
        pod["status"]["containerStatuses"] = json!([running("db", db), api]);
        let view = status_json(&pod);
        assert_eq!(view["started"], started, "{view:#}");
    }
}

#[test]
fn since_has_its_source_or_is_absent() {
    let since = |pod: &Value| {
        let describe = |row: &Value| {
            let (since, name) = (&row["since"], row["name"].as_str().unwrap());
            let seconds = since["at"].as_str()?.strip_prefix("2026-11-21T14:00:").unwrap();
            Some(format!("{name} {seconds} {}", since["by"].as_str().unwrap()))
        };
        rows(&status_json(pod)).iter().filter_map(describe).collect::<Vec<_>>()
    };
    // Waiting containers have been waiting since the sidecar started.
    let pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    assert_eq!(since(&pod), ["podgate 05Z kubelet", "db 06.250Z podgate", "api 05Z kubelet", "web 05Z kubelet"]);
    let mut gated = pod.clone();
    gated["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!("1795269602000,api=gate+1000,web=since+2000");
    assert_eq!(since(&gated), ["podgate 05Z kubelet", "api 03.000Z podgate", "web 04.000Z podgate"]);
    // Times of a previous sidecar are ignored.
    let mut stale = pod.clone();
    stale["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-21T14:00:01Z");
    assert_eq!(since(&stale), ["podgate 05Z kubelet"]);
    let mut frozen = chain();
    frozen["status"]["containerStatuses"] = json!([running("db", true),
        {"name": "api", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T14:00:09Z"}}}]);
    assert_eq!(since(&frozen), ["podgate 05Z kubelet", "db 05Z kubelet", "api 09Z kubelet"]);
}

#[test]
fn conditions_describe_what_is_needed() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0]["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened"]}});
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": "web"}});
    pod["spec"]["containers"][2] =
        gate("web", &["db", "api=Ready", "api=Completed", "api=Exited", "api=Started", "gone=Ready"]);
    let takes = |pod: &Value| {
        let view = status_json(pod);
        let conditions = view["containers"][3]["waitsFor"].as_array().unwrap().iter();
        conditions.map(|c| c["takes"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = [
        "db must pass its readinessProbe (httpGet :web/)",
        "api must start (it has no probe)",
        "api must exit with 0",
        "api must exit",
        "api must start",
        "the Pod has no container gone",
    ];
    assert_eq!(takes(&pod), all);
    // The sidecar's list has the application's own probes. The list takes precedence over the spec.
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db","startupProbe":{"exec":{"command":["sh","-c","$$(x)"]}},"readinessProbe":{"grpc":{"port":9}}}]"#}]);
    assert_eq!(takes(&pod)[0], "db must pass its startupProbe (exec sh -c $(x)), then its readinessProbe (grpc :9)");
    pod["metadata"]["annotations"]["status.podgate.io/db"] = json!("Failed");
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    assert_eq!(takes(&pod)[0], "db has ended for good; create a new Pod, or override the state of db");
}

//! Tests of `kubectl podgate timeline`: charts of Pods in several states.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod picture;
mod requests;

use crate::api_server::{Answer, FakeApiServer, Request};
use crate::pods::{assert_fields_in_docs, docs, gate, hook, notes};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time at which the Pod was created: 2026-11-21T14:00:00Z, in milliseconds since 1970.
const START_MS: u64 = 1_795_269_600_000;

/// Returns a started Pod. db has a hook; api and web have gates.
fn pod() -> Value {
    let running = |name: &str, at: &str| json!({"name": name, "ready": true, "state": {"running": {"startedAt": format!("2026-11-21T14:00:{at}Z")}}});
    let condition = |kind: &str, at: &str| json!({"type": kind, "status": "True", "lastTransitionTime": format!("2026-11-21T14:00:{at}Z")});
    json!({
        "metadata": {"name": "ordered", "uid": "u1", "creationTimestamp": "2026-11-21T14:00:00Z", "annotations": {
            "sandbox.podgate.io/id": "3f2a9c1e-4097-1a0c5f3b", "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
            "sandbox.podgate.io/stage": "started", "sandbox.podgate.io/order": "db,api,web", "sandbox.podgate.io/seen": "2026-11-21T14:00:08Z",
            "sandbox.podgate.io/times": format!(
                "{},db=started+0;ready+1577;since+1577,api=gate+800;opened+1580;started+1581;ready+3300;since+3300,web=gate+850;opened+3303;started+3304;ready+3390;since+3390",
                START_MS + 4123),
            "status.podgate.io/db": "Ready", "status.podgate.io/api": "Ready", "status.podgate.io/web": "Ready"}},
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "podgate", "restartPolicy": "Always", "command": ["/bin/podgate-controller"]}],
            "containers": [
                hook("db", &[]), gate("api", &["db"]), gate("web", &["api"])]},
        "status": {
            "phase": "Running",
            "conditions": [condition("PodScheduled", "00"), condition("PodReadyToStartContainers", "01"), condition("Ready", "07")],
            "initContainerStatuses": [running("podgate", "01")],
            "containerStatuses": [running("db", "04"), running("api", "04"), running("web", "04")]}
    })
}

fn events() -> Value {
    let of = |reason: &str, path: &str, at: &str, message: &str| json!({"reason": reason, "message": message, "firstTimestamp": format!("2026-11-21T14:00:{at}Z"), "involvedObject": {"fieldPath": path}});
    json!([
        {"reason": "Scheduled", "eventTime": "2026-11-21T14:00:00.412345Z", "involvedObject": {}},
        of("Pulled", "spec.initContainers{podgate}", "01", "Container image \"p\" already present on machine"),
        of("Started", "spec.initContainers{podgate}", "01", "Container started"),
        of("Pulled", "spec.containers{db}", "04", "Successfully pulled image \"db:1\" in 2.1s (2.5s including waiting). Image size: 9 bytes."),
        of("Started", "spec.containers{db}", "04", ""),
        of("Pulled", "spec.containers{api}", "04", "Container image \"a\" already present on machine"),
    ])
}

fn serve(pod: &Value, events: Value) -> FakeApiServer {
    let pod = pod.clone();
    FakeApiServer::new(move |request: &Request| match request.path.contains("/events") {
        true => Answer::Json(200, json!({"items": events})),
        false => Answer::Json(200, pod.clone()),
    })
}

fn run(server: &FakeApiServer, format: &str) -> String {
    let (code, out, err) = server.run(&["timeline", "ordered", "-o", format, "--width", "100"]);
    assert_eq!((code, err.as_str()), (0, ""));
    out
}

/// Returns the output of `timeline -o json` with the events above.
fn timeline_of(pod: &Value) -> Value {
    serde_json::from_str(&run(&serve(pod, events()), "json")).unwrap()
}

/// Converts a time to milliseconds since the Pod was created.
fn ms(time: &Value) -> i64 {
    let at = humantime::parse_rfc3339(time.as_str().unwrap()).unwrap().duration_since(UNIX_EPOCH).unwrap();
    at.as_millis() as i64 - START_MS as i64
}

fn row<'a>(timeline: &'a Value, name: &str) -> &'a Value {
    timeline["containers"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

/// Formats each bar as `KIND FROM-TO`, in milliseconds.
fn bars(timeline: &Value, name: &str) -> Vec<String> {
    let bars = row(timeline, name)["bars"].as_array().unwrap().iter();
    let mark = |bar: &Value| if bar["exact"] == true { "" } else { "~" };
    bars.map(|bar| format!("{} {}-{}{}", bar["kind"].as_str().unwrap(), ms(&bar["from"]), ms(&bar["to"]), mark(bar)))
        .collect()
}

fn has_note(timeline: &Value, part: &str) -> bool {
    notes(timeline).iter().any(|note| note.contains(part))
}

#[test]
fn timeline_combines_all_sources() {
    let timeline = timeline_of(&pod());
    assert_eq!(ms(&timeline["from"]), 0);
    assert_eq!(bars(&timeline, "db"), ["wait 1000-1500", "pull 1500-4000~", "start 4123-5700", "ready 5700-8139"]);
    assert_eq!(bars(&timeline, "api"), ["wait 1000-4923", "gate 4923-5703", "start 5703-7423", "ready 7423-8139"]);
    assert_eq!(bars(&timeline, "podgate"), ["run 1000-8139~"], "the readiness of the sidecar is not recorded");
    let mark = |mark: &Value| format!("{} {} {}", mark["what"].as_str().unwrap(), ms(&mark["at"]), mark["exact"]);
    let marks: Vec<String> = timeline["marks"].as_array().unwrap().iter().map(mark).collect();
    assert_eq!(marks, ["created 0 false", "scheduled 412 true", "sandbox ready 1000 false", "Ready 7000 false"]);
    assert_eq!(
        timeline["summary"],
        "Pod shop/ordered took 7.51 s from its creation until web, the last one, was Ready."
    );
}

#[test]
fn kubelet_time_is_used_if_the_sidecar_was_late() {
    let mut pod = pod();
    pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:02Z");
    let timeline = timeline_of(&pod);
    assert_eq!(bars(&timeline, "db")[2], "start 2000-5700~");
}

#[test]
fn notes_name_missing_sources() {
    let mut bare = pod();
    bare["metadata"]["annotations"].as_object_mut().unwrap().remove("sandbox.podgate.io/times");
    let timeline = timeline_of(&bare);
    assert_eq!(bars(&timeline, "db").last().unwrap(), "run 4000-7583~");
    assert_eq!(bars(&timeline, "api").last().unwrap(), "run 4000-7583~", "a gate and a program cannot be told apart");
    assert!(timeline["containers"].as_array().unwrap().iter().all(|row| row["ready"].is_null()));
    assert!(has_note(&timeline, "has recorded no times"), "{:#}", timeline["notes"]);

    // Times of a previous sandbox are ignored.
    let mut stale = pod();
    stale["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:10Z");
    let timeline = timeline_of(&stale);
    assert!(row(&timeline, "db")["ready"].is_null());
    assert!(has_note(&timeline, "published times are ignored"), "{:#}", timeline["notes"]);

    // requests.rs tests a server that refuses to list the events.
    let timeline: Value = serde_json::from_str(&run(&serve(&pod(), json!([])), "json")).unwrap();
    assert!(has_note(&timeline, "No events are left"), "{:#}", timeline["notes"]);
    assert!(timeline["containers"].as_array().unwrap().iter().all(|row| row["pulled"].is_null()));
    assert!(!row(&timeline, "db")["ready"].is_null());
}

/// Without a sidecar, only the kubelet's `started` shows that a gate waits.
#[test]
fn waiting_gate_without_a_sidecar_is_shown() {
    let mut lean = pod();
    lean["metadata"]["annotations"] = json!({});
    lean["spec"]["initContainers"] = json!([]);
    lean["status"]["initContainerStatuses"] = json!([]);
    for (at, has_started) in [(1, true), (2, false)] {
        let container = &mut lean["spec"]["containers"][at];
        container["command"] = json!(["/podgate/bin/podgate", "entrypoint", "--ask", "db http://:80/", "--", "/api"]);
        container["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--wait"]}});
        lean["status"]["containerStatuses"][at]["started"] = has_started.into();
        lean["status"]["containerStatuses"][at]["ready"] = has_started.into();
    }
    let timeline = timeline_of(&lean);
    for (name, expected) in [("api", "run 4000-"), ("web", "gate 4000-")] {
        let bars = bars(&timeline, name);
        assert!(bars.last().unwrap().starts_with(expected), "{name}: {bars:?}");
    }
    assert!(has_note(&timeline, "a gate that has opened counts as running since its start"), "{:#}", timeline["notes"]);
}

#[test]
fn held_interval_ends_with_the_opening() {
    let mut pod = pod();
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db"},{"name":"api","mode":"hold","until":["db"]},{"name":"web","mode":"hold","until":["api"]}]"#}]);
    pod["spec"]["containers"] = json!([{"name": "db"}, {"name": "api"}, {"name": "web"}]);
    let times = "db=started+0;ready+1577,api=gate+100;opened+1600;started+2700;ready+3300,web=gate+100";
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!(format!("{},{times}", START_MS + 4123));
    // The gate opened within the second that the kubelet reports, and the sidecar observed the start late.
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:05Z");
    let message = "couldn't parse env file";
    pod["status"]["containerStatuses"][2]["state"] =
        json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}});
    let timeline = timeline_of(&pod);
    assert_eq!(bars(&timeline, "api"), ["wait 1000-4223", "gate 4223-5723", "start 5723-7423~", "ready 7423-8041"]);
    assert_eq!(bars(&timeline, "web"), ["wait 1000-4223", "gate 4223-8041"]);
    // The kubelet created the container in the next second.
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:06Z");
    let timeline = timeline_of(&pod);
    assert_eq!(bars(&timeline, "api")[1..], ["gate 4223-5723", "wait 5723-6823", "start 6823-7423", "ready 7423-8041"]);
    let server = serve(&pod, events());
    let text = run(&server, "text");
    let line = text.lines().rfind(|line| line.starts_with("api ")).unwrap();
    assert_eq!(
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
        ["api", "present", "1.50 s", "+6.82 s", "+7.42 s", "0.60 s"]
    );
    let api = row(&timeline, "api");
    assert_eq!((&api["mode"], &api["bars"][1]["kind"]), (&json!("hold"), &json!("gate")));
}

#[test]
fn timeline_of_a_starting_pod_ends_now() {
    let mut pod = pod();
    pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("starting");
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!(format!("{},db=started+0;since+0,api=gate+800", START_MS + 4123));
    pod["status"]["containerStatuses"] = json!([]);
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 - START_MS as i64;
    let timeline = timeline_of(&pod);
    let end = ms(&timeline["to"]);
    assert!(end >= before, "{timeline:#}");
    assert_eq!(bars(&timeline, "db").last().unwrap(), &format!("start 4123-{end}"));
    assert_eq!(bars(&timeline, "api").last().unwrap(), &format!("gate 4923-{end}"));
    assert_eq!(bars(&timeline, "web"), [format!("wait 1000-{end}")]);
    assert!(timeline["summary"].as_str().unwrap().starts_with("Pod shop/ordered has been starting for "));
}

#[test]
fn bars_end_with_the_container_and_notes_name_restarts() {
    let mut pod = pod();
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!(format!("{},db=started+0;ready+1;ended+1500,api=started+1600;ready+1700", START_MS + 4123));
    pod["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0, "startedAt": "2026-11-21T14:00:04Z", "finishedAt": "2026-11-21T14:00:05Z"}});
    pod["status"]["containerStatuses"][1]["restartCount"] = json!(2);
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:09Z");
    let timeline = timeline_of(&pod);
    assert_eq!(bars(&timeline, "db")[2..], ["start 4123-4124", "ready 4124-5623"]);
    assert!(bars(&timeline, "api").contains(&"start 5723-5823".to_owned()), "{:?}", bars(&timeline, "api"));
    assert!(has_note(&timeline, "api was restarted 2 times"), "{:#}", timeline["notes"]);
}

#[test]
fn incomplete_pods_can_be_drawn() {
    for pod in [
        json!({"metadata": {}, "spec": {}}),
        json!({"metadata": {"creationTimestamp": "2026-11-21T14:00:00Z"}, "spec": {"containers": [{}]}}),
        json!({"metadata": {"annotations": {"sandbox.podgate.io/times": "18446744073709551615,db=ready+0"}},
               "spec": {"containers": [{"name": "db"}]}}),
    ] {
        let server = serve(&pod, events());
        let mut command = server.command(&["timeline", "ordered", "--width", "40"]);
        for colors in ["", "1"] {
            assert!(command.env("CLICOLOR_FORCE", colors).output().unwrap().status.success(), "{pod}");
        }
        assert!(run(&server, "json").ends_with("}\n"));
    }
}

#[test]
fn docs_show_this_output() {
    let plain = run(&serve(&pod(), events()), "text");
    assert!(docs().contains(&plain), "docs/watching.md should contain:\n{plain}");
    let json = timeline_of(&pod());
    assert_fields_in_docs(&json, &["", "/marks/0", "/containers/0", "/containers/0/bars/0"]);
    assert_eq!(
        json["containers"][1]["ready"],
        json!({"at": "2026-11-21T14:00:05.700Z", "exact": true, "by": "podgate"})
    );
}

#[test]
fn pull_duration_is_read_from_the_event() {
    // Durations in the format of Go's `Duration.String`, and their values in milliseconds.
    let table = [
        ("1.234567891s", Some(1234)),
        ("1m2.5s", Some(62_500)),
        ("850ms", Some(850)),
        ("12.3µs", Some(0)),
        ("1h0m0s", Some(3_600_000)),
        ("", None),
        ("soon", None),
        ("1", None),
        ("999999999h", None),
    ];
    let names: Vec<String> = (0..table.len()).map(|index| format!("c{index}")).collect();
    let mut pod = pod();
    pod["spec"]["containers"] = names.iter().map(|name| json!({"name": name})).collect();
    let event = |(name, (time, _)): (&String, &(&str, Option<u64>))| {
        let message =
            format!("Successfully pulled image \"db:1\" in 1.5s ({time} including waiting). Image size: 9 bytes.");
        json!({"reason": "Pulled", "message": message, "involvedObject": {"fieldPath": format!("spec.containers{{{name}}}")}})
    };
    let events = names.iter().zip(&table).map(event).collect();
    let timeline: Value = serde_json::from_str(&run(&serve(&pod, events), "json")).unwrap();
    for (name, (time, expected)) in names.iter().zip(table) {
        assert_eq!(row(&timeline, name)["pullMs"].as_u64(), expected, "{time}");
    }
}

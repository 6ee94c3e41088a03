//! Tests of timelines of whole Pods.

use super::build::build;
use super::event::Event;
use super::shape::{Row, Timeline};
use super::{svg, text};
use crate::pod::tests::{gate, hook};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2026-11-21T14:00:00Z, in milliseconds since 1970.
const START_MS: u64 = 1_795_269_600_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(START_MS + 20_000)
}

/// Returns a started Pod. db has a hook; api and web have gates.
fn pod() -> Value {
    let running = |name: &str, at: &str| json!({"name": name, "ready": true, "state": {"running": {"startedAt": format!("2026-11-21T14:00:{at}Z")}}});
    let condition = |kind: &str, at: &str| json!({"type": kind, "status": "True", "lastTransitionTime": format!("2026-11-21T14:00:{at}Z")});
    json!({
        "metadata": {"name": "ordered", "uid": "u1", "creationTimestamp": "2026-11-21T14:00:00Z", "annotations": {
            "sandbox.podgate.io/id": "3f2a9c1e-4097-1a0c5f3b", "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
            "sandbox.podgate.io/phase": "started", "sandbox.podgate.io/order": "db,api,web", "sandbox.podgate.io/seen": "2026-11-21T14:00:08Z",
            "sandbox.podgate.io/times": format!(
                "{},db=started+0;ready+1577;since+1577,api=gate+800;opened+1580;started+1581;ready+3300;since+3300,web=gate+850;opened+3303;started+3304;ready+3390;since+3390",
                START_MS + 4123),
            "status.podgate.io/db": "Ready", "status.podgate.io/api": "Ready", "status.podgate.io/web": "Ready"}},
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "podgate", "restartPolicy": "Always", "command": ["/usr/bin/podgate-controller"]}],
            "containers": [
                hook("db", &[]), gate("api", &["db"]), gate("web", &["api"])]},
        "status": {
            "phase": "Running",
            "conditions": [condition("PodScheduled", "00"), condition("PodReadyToStartContainers", "01"), condition("Ready", "07")],
            "initContainerStatuses": [running("podgate", "01")],
            "containerStatuses": [running("db", "04"), running("api", "04"), running("web", "04")]}
    })
}

fn events() -> Vec<Event> {
    let of = |reason: &str, path: &str, at: &str, message: &str| json!({"reason": reason, "message": message, "firstTimestamp": format!("2026-11-21T14:00:{at}Z"), "involvedObject": {"fieldPath": path}});
    let all = json!([
        {"reason": "Scheduled", "eventTime": "2026-11-21T14:00:00.412345Z", "involvedObject": {}},
        of("Pulled", "spec.initContainers{podgate}", "01", "Container image \"p\" already present on machine"),
        of("Started", "spec.initContainers{podgate}", "01", "Container started"),
        of("Pulled", "spec.containers{db}", "04", "Successfully pulled image \"db:1\" in 2.1s (2.5s including waiting). Image size: 9 bytes."),
        of("Started", "spec.containers{db}", "04", ""),
        of("Pulled", "spec.containers{api}", "04", "Container image \"a\" already present on machine"),
    ]);
    serde_json::from_value(all).unwrap()
}

fn build_timeline(pod: &Value) -> Timeline {
    build(&serde_json::from_value(pod.clone()).unwrap(), Some(&events()), "shop", now())
}

fn row<'a>(timeline: &'a Timeline, name: &str) -> &'a Row {
    timeline.containers.iter().find(|row| row.name == name).unwrap()
}

/// Formats each bar as `KIND FROM-TO`, in milliseconds from the beginning of the chart.
fn bars(timeline: &Timeline, name: &str) -> Vec<String> {
    let zero = timeline.from;
    let bars = row(timeline, name).bars.iter();
    bars.map(|b| format!("{:?} {}-{}{}", b.kind, b.from - zero, b.to - zero, if b.exact { "" } else { "~" })).collect()
}

#[test]
fn timeline_combines_all_sources() {
    let timeline = build_timeline(&pod());
    assert_eq!(timeline.from, START_MS as i64);
    assert_eq!(bars(&timeline, "db"), ["Wait 1000-1500", "Pull 1500-4000~", "Start 4123-5700", "Ready 5700-8139"]);
    assert_eq!(bars(&timeline, "api"), ["Wait 1000-4923", "Gate 4923-5703", "Start 5703-7423", "Ready 7423-8139"]);
    assert_eq!(bars(&timeline, "podgate"), ["Run 1000-8139~"], "the readiness of the sidecar is not recorded");
    let marks: Vec<(&str, i64, bool)> =
        timeline.marks.iter().map(|mark| (mark.what, mark.moment.at - timeline.from, mark.moment.exact)).collect();
    assert_eq!(
        marks,
        [("created", 0, false), ("scheduled", 412, true), ("sandbox ready", 1000, false), ("Ready", 7000, false)]
    );
    assert_eq!(timeline.summary, "Pod shop/ordered took 7.51 s from its creation until web, the last one, was Ready.");
}

#[test]
fn kubelet_time_is_used_if_the_sidecar_was_late() {
    let mut pod = pod();
    pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:02Z");
    let timeline = build_timeline(&pod);
    assert_eq!(bars(&timeline, "db")[2], "Start 2000-5700~");
    assert!(timeline.notes.iter().any(|note| note.contains("observed the start of db late")), "{:?}", timeline.notes);
}

#[test]
fn notes_name_missing_sources() {
    let mut bare = pod();
    bare["metadata"]["annotations"].as_object_mut().unwrap().remove("sandbox.podgate.io/times");
    let timeline = build_timeline(&bare);
    assert_eq!(bars(&timeline, "db").last().unwrap(), "Run 4000-7583~");
    assert_eq!(bars(&timeline, "api").last().unwrap(), "Run 4000-7583~", "a gate and a program cannot be told apart");
    assert!(timeline.containers.iter().all(|row| row.ready.is_none()));
    assert!(timeline.notes.iter().any(|note| note.contains("has recorded no times")), "{:?}", timeline.notes);

    // Times of a previous sandbox are ignored.
    let mut stale = pod();
    stale["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:10Z");
    let timeline = build_timeline(&stale);
    assert!(row(&timeline, "db").ready.is_none());
    assert!(timeline.notes.iter().any(|note| note.contains("published times are ignored")), "{:?}", timeline.notes);

    let pod = serde_json::from_value(pod()).unwrap();
    for (events, expected) in [(None, "could not be read"), (Some(&[][..]), "No events are left")] {
        let timeline = build(&pod, events, "shop", now());
        assert!(timeline.notes[0].contains(expected), "{:?}", timeline.notes);
        assert!(timeline.containers.iter().all(|row| row.pulled.is_none()));
        assert!(row(&timeline, "db").ready.is_some());
    }
}

#[test]
fn held_interval_ends_with_the_opening() {
    let mut pod = pod();
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db"},{"name":"api","mode":"hold","until":["db"]},{"name":"web","mode":"hold","until":["api"]}]"#}]);
    pod["spec"]["containers"] = json!([{"name": "db"}, {"name": "api"}, {"name": "web"}]);
    let times = "db=started+0;ready+1577,api=gate+100;opened+1600;started+2700;ready+3300,web=gate+100";
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!(format!("{},{times}", START_MS + 4123));
    // The kubelet's second contains the opening, and the sidecar observed the start late.
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:05Z");
    let message = "couldn't parse env file";
    pod["status"]["containerStatuses"][2]["state"] =
        json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}});
    let timeline = build_timeline(&pod);
    assert_eq!(bars(&timeline, "api"), ["Wait 1000-4223", "Gate 4223-5723", "Start 5723-7423~", "Ready 7423-8041"]);
    assert_eq!(bars(&timeline, "web"), ["Wait 1000-4223", "Gate 4223-8041"]);
    // The kubelet created the container in the next second.
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:06Z");
    let timeline = build_timeline(&pod);
    assert_eq!(bars(&timeline, "api")[1..], ["Gate 4223-5723", "Wait 5723-6823", "Start 6823-7423", "Ready 7423-8041"]);
    let text = text::render(&timeline, 100, false);
    let line = text.lines().rfind(|line| line.starts_with("api ")).unwrap();
    assert_eq!(
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
        ["api", "present", "1.50 s", "+6.82 s", "+7.42 s", "0.60 s"]
    );
    assert!(svg::render(&timeline).contains("api: gate waited from +4.22 s, started +6.82 s"));
    let json = serde_json::to_value(&timeline).unwrap();
    assert_eq!(
        (&json["containers"][2]["mode"], &json["containers"][2]["bars"][1]["kind"]),
        (&json!("hold"), &json!("gate"))
    );
}

#[test]
fn timeline_of_a_starting_pod_ends_now() {
    let mut pod = pod();
    pod["metadata"]["annotations"]["sandbox.podgate.io/phase"] = json!("starting");
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!(format!("{},db=started+0;since+0,api=gate+800", START_MS + 4123));
    pod["status"]["containerStatuses"] = json!([]);
    let timeline = build_timeline(&pod);
    assert_eq!(bars(&timeline, "db").last().unwrap(), "Start 4123-20000");
    assert_eq!(bars(&timeline, "api").last().unwrap(), "Gate 4923-20000");
    assert_eq!(bars(&timeline, "web"), ["Wait 1000-20000"]);
    assert_eq!(timeline.summary, "Pod shop/ordered has been starting for 20.00 s.");
}

#[test]
fn bars_end_with_the_container_and_notes_name_restarts() {
    let mut pod = pod();
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!(format!("{},db=started+0;ready+1;ended+1500,api=started+1600;ready+1700", START_MS + 4123));
    pod["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0, "startedAt": "2026-11-21T14:00:04Z", "finishedAt": "2026-11-21T14:00:05Z"}});
    pod["status"]["containerStatuses"][1]["restartCount"] = json!(2);
    pod["status"]["containerStatuses"][1]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:09Z");
    let timeline = build_timeline(&pod);
    assert_eq!(bars(&timeline, "db")[2..], ["Start 4123-4124", "Ready 4124-5623"]);
    assert!(bars(&timeline, "api").contains(&"Start 5723-5823".to_owned()), "{:?}", bars(&timeline, "api"));
    assert!(timeline.notes.iter().any(|note| note.contains("api was restarted 2 times")), "{:?}", timeline.notes);
}

#[test]
fn incomplete_pods_can_be_drawn() {
    for pod in [
        json!({"metadata": {}, "spec": {}}),
        json!({"metadata": {"creationTimestamp": "2026-11-21T14:00:00Z"}, "spec": {"containers": [{}]}}),
        json!({"metadata": {"annotations": {"sandbox.podgate.io/times": "18446744073709551615,db=ready+0"}},
               "spec": {"containers": [{"name": "db"}]}}),
    ] {
        let timeline = build_timeline(&pod);
        for colors in [false, true] {
            text::render(&timeline, 40, colors);
        }
        assert!(svg::render(&timeline).ends_with("</svg>\n"));
    }
}

#[test]
fn docs_show_this_output() {
    let timeline = build_timeline(&pod());
    let plain = anstream::adapter::strip_str(&text::render(&timeline, 100, false)).to_string();
    let docs = include_str!("../../../../docs/kubectl-podgate.md");
    assert!(docs.contains(&plain), "docs/kubectl-podgate.md should contain:\n{plain}");
    let json = serde_json::to_value(&timeline).unwrap();
    for at in ["", "/marks/0", "/containers/0", "/containers/0/bars/0"] {
        for key in json.pointer(at).unwrap().as_object().unwrap().keys() {
            assert!(docs.contains(&format!("`{key}`")), "docs/kubectl-podgate.md does not name {key}");
        }
    }
    assert_eq!(
        json["containers"][1]["ready"],
        json!({"at": "2026-11-21T14:00:05.700Z", "exact": true, "by": "podgate"})
    );
}

#[test]
fn svg_escapes_text_from_the_cluster() {
    assert_eq!(svg::escape("a<b>&\"'\u{1b}\u{ffff}é"), "a&lt;b&gt;&amp;&quot;&#39;  é");
    let mut pod = pod();
    let evil = "<script>alert('x')</script>\"&";
    pod["metadata"]["name"] = json!(evil);
    pod["spec"]["containers"][1]["name"] = json!(evil);
    let timeline = build_timeline(&pod);
    let picture = svg::render(&timeline);
    assert!(!picture.contains("<script") && !picture.contains("alert('x')"), "{picture}");
    assert!(picture.contains("&lt;script&gt;"));
    assert!(picture.contains("role=\"img\"") && picture.contains("<desc id=\"pg-desc\">"));
    assert!(picture.contains("prefers-color-scheme"));
    for foreign in ["src=", "href=", "@import", "url("] {
        assert!(!picture.contains(foreign), "{foreign}");
    }
}

#[test]
fn svg_shortens_long_names() {
    let mut pod = pod();
    pod["metadata"]["name"] = json!(format!("{}-x2x4z", "a".repeat(240)));
    pod["spec"]["containers"][1]["name"] = json!("metrics-exporter-of-the-shop-number-1");
    pod["spec"]["containers"][2]["name"] = json!("metrics-exporter-of-the-shop-number-2");
    let timeline = build_timeline(&pod);
    let svg = svg::render(&timeline);
    let texts = |class: &str| -> Vec<String> {
        let open = format!("<text class=\"{class}\"");
        let parts = svg.split(&open).skip(1);
        parts.map(|part| part.split(['>', '<']).nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(texts("name")[2..], ["metrics-expo…op-number-1", "metrics-expo…op-number-2"]);
    let head = texts("head");
    assert!(head.len() > 3 && head.iter().all(|line| line.chars().count() <= 96), "{head:#?}");
    assert_eq!(
        head.concat().replace(' ', ""),
        timeline.summary.replace(' ', ""),
        "the wrapped headline must contain the whole summary"
    );
}

//! Tests of `status` for Pods with held containers.

use crate::pods::{Change, assert_status_screen, docs, held, running, serve, status_json, status_text};
use serde_json::{Value, json};

/// Returns the cells of api's row, joined by `|`. Replaces an age by the word `ago`, because the age varies.
fn row(text: &str) -> String {
    let head = text.lines().find(|line| line.starts_with("CONTAINER")).unwrap();
    let mut starts = ["CONTAINER", "PODGATE", "SINCE", "KUBELET", "WAITS FOR", "HOLDS BACK"]
        .map(|name| head.find(name).unwrap())
        .to_vec();
    let line = text.lines().find(|line| line.starts_with("api ")).unwrap();
    starts.push(line.len().max(head.len()));
    let cells = starts.windows(2).map(|at| line.get(at[0]..at[1].min(line.len())).unwrap_or_default().trim());
    cells.map(|cell| if cell.ends_with(" ago") { "ago" } else { cell }).collect::<Vec<_>>().join("|")
}

fn set_state(pod: &mut Value, container: &str, state: &str) {
    pod["metadata"]["annotations"][format!("status.podgate.io/{container}")] = json!(state);
}

fn open_gate(pod: &mut Value, container: &str) {
    let times = format!("1795269605250,{container}=gate+0;opened+3000");
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!(times);
}

fn set_message(pod: &mut Value, message: &str) {
    pod["status"]["containerStatuses"][1]["state"]["waiting"]["message"] = json!(message);
}

const HELD: &str = "api|Waiting|ago|held (CreateContainerConfigError)|db=Ready|web";

#[test]
fn status_tells_why_the_kubelet_holds_a_container() {
    assert_status_screen("status-held", &held(), serve);
    let json = status_json(&held());
    let web = &json["containers"][3];
    assert_eq!((&web["mode"], &web["timeout"]), (&json!("hold"), &json!("1m30s")));
    assert_eq!(web["kubelet"]["reason"], "CreateContainerConfigError");
    assert_eq!(web["waitsFor"][0]["gateOf"], "web");
}

#[test]
fn row_and_note_follow_the_gate() {
    let table: [(&str, &str, Change); 11] = [
        (HELD, "api is held by podgate: it waits for db=Ready.", |pod| set_message(pod, "couldn't parse env file")),
        (
            "api|Waiting|ago|CreateContainerConfigError|db=Ready|web",
            "api is stuck: CreateContainerConfigError (configmap \"settings\" not found).",
            |pod| set_message(pod, "configmap \"settings\" not found"),
        ),
        (
            "api|Waiting|ago|CreateContainerConfigError|db=Ready|web",
            "api cannot start on node node-1: its kubelet is older than 1.35, or has the feature gate EnvFiles off \
             (missing value for PODGATE_HOLD).",
            |pod| set_message(pod, "missing value for PODGATE_HOLD"),
        ),
        (
            "api|-||held (CreateContainerConfigError)|db=Ready|web",
            "api is held by podgate: it waits for db=Ready.",
            |pod| {
                pod["metadata"]["annotations"] = json!({});
            },
        ),
        (
            "api|Waiting|ago|held (CreateContainerConfigError)|the kubelet|web",
            "api is held by podgate: its conditions are met, but the sidecar has not opened the gate yet.",
            |pod| set_state(pod, "db", "Ready"),
        ),
        (
            "api|Waiting|ago|held (CreateContainerConfigError)|the kubelet|web",
            "api is released; the kubelet creates it within seconds.",
            |pod| {
                set_state(pod, "db", "Ready");
                open_gate(pod, "api");
            },
        ),
        (
            "api|TimedOut||held (CreateContainerConfigError)|db=Ready|web",
            "api is held by podgate: its wait timed out after 5m; it stays held until db=Ready.",
            |pod| set_state(pod, "api", "TimedOut"),
        ),
        (
            &HELD[..HELD.len() - 3],
            "web is released: its wait timed out after 1m30s. The kubelet creates it within seconds.",
            |pod| {
                open_gate(pod, "api=gate+0,web");
                set_state(pod, "web", "TimedOut");
            },
        ),
        (
            "api|Violated||running, ready||web",
            "api was created although its gate is closed: the order is not kept.",
            |pod| {
                set_state(pod, "api", "Violated");
                pod["status"]["containerStatuses"][1] = running("api", true);
            },
        ),
        // The container has crashed while its predecessor was not ready, and is held again.
        (
            "api|Failed||held (CreateContainerConfigError), 1 restart|db=Ready|web",
            "api is held by podgate: it waits for db=Ready.",
            |pod| {
                set_state(pod, "db", "NotReady");
                set_state(pod, "api", "Failed");
                open_gate(pod, "api");
                let status = &mut pod["status"]["containerStatuses"][1];
                status["restartCount"] = json!(1);
                status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
            },
        ),
        ("api|Started||running, not ready||web", "web is held by podgate: it waits for api=Ready.", |pod| {
            set_state(pod, "api", "Started");
            pod["status"]["containerStatuses"][1] = running("api", false);
        }),
    ];
    for (expected_row, expected_note, change) in table {
        let mut pod = held();
        change(&mut pod);
        let text = status_text(&pod);
        assert!(text.lines().any(|line| line.strip_prefix("- ") == Some(expected_note)), "{expected_note}: {text}");
        assert_eq!(row(&text), expected_row, "{text}");
        let is_in_docs = expected_note.starts_with("api is held") || expected_note.starts_with("api is released");
        assert!(!is_in_docs || docs().contains(expected_note), "docs/watching.md should contain: {expected_note}");
    }
}

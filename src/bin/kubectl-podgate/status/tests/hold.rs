//! Tests of the status of Pods with held containers.

use crate::pod::tests::{Change, held, running, view_of};
use crate::status::text::{cells, render};
use serde_json::{Value, json};

/// Returns the cells of api's row, joined by `|`.
fn row(pod: &Value) -> String {
    cells(view_of(pod).containers.iter().find(|row| row.name == "api").unwrap()).join("|")
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

const HELD: &str = "api|Waiting|6 s ago|held (CreateContainerConfigError)|db=Ready|web";

#[test]
fn status_tells_why_the_kubelet_holds_a_container() {
    let text = anstream::adapter::strip_str(&render(&view_of(&held()))).to_string();
    for expected in [
        "Pod shop/ordered is starting: db holds back api; api holds back web until db=Ready.",
        "needed     db=Ready: db must pass its readinessProbe (exec pg_isready -U $(USER)$$)",
        "- api is held by podgate: waits for db=Ready.",
        "- web is held by podgate: waits for api=Ready.",
        "- The kubelet reports CreateContainerConfigError for a held container. The configuration has no error.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("stuck") && !text.contains("OPEN"), "{text}");
    assert_eq!(row(&held()), HELD);
    let json = serde_json::to_value(view_of(&held())).unwrap();
    let web = &json["containers"][3];
    assert_eq!((&web["mode"], &web["timeout"]), (&json!("hold"), &json!("1m30s")));
    assert_eq!(web["kubelet"]["reason"], "CreateContainerConfigError");
    assert_eq!(web["waitsFor"][0]["gateOf"], "web");
}

#[test]
fn row_and_note_follow_the_gate() {
    let table: [(&str, &str, Change); 10] = [
        (HELD, "api is held by podgate: waits for db=Ready.", |pod| set_message(pod, "couldn't parse env file")),
        (
            "api|Waiting|6 s ago|CreateContainerConfigError|db=Ready|web",
            "api is stuck: CreateContainerConfigError (configmap \"settings\" not found).",
            |pod| set_message(pod, "configmap \"settings\" not found"),
        ),
        (
            "api|-||held (CreateContainerConfigError)|db=Ready|web",
            "api is held by podgate: waits for db=Ready.",
            |pod| {
                pod["metadata"]["annotations"] = json!({});
            },
        ),
        (
            "api|Waiting|6 s ago|held (CreateContainerConfigError)|the kubelet|web",
            "api is held by podgate: its conditions hold, but the sidecar has not opened its gate yet.",
            |pod| set_state(pod, "db", "Ready"),
        ),
        (
            "api|Waiting|6 s ago|held (CreateContainerConfigError)|the kubelet|web",
            "api is released; the kubelet creates it within seconds.",
            |pod| {
                set_state(pod, "db", "Ready");
                open_gate(pod, "api");
            },
        ),
        (
            "api|TimedOut||held (CreateContainerConfigError)|db=Ready|web",
            "api is held by podgate: timed out after 5m; stays held until db=Ready.",
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
            "api was created although its gate is closed: the order is lost.",
            |pod| {
                set_state(pod, "api", "Violated");
                pod["status"]["containerStatuses"][1] = running("api", true);
            },
        ),
        // The container has crashed while its predecessor was not ready, and is held again.
        (
            "api|Failed||held (CreateContainerConfigError), 1 restart|db=Ready|web",
            "api is held by podgate: waits for db=Ready.",
            |pod| {
                set_state(pod, "db", "NotReady");
                set_state(pod, "api", "Failed");
                open_gate(pod, "api");
                let status = &mut pod["status"]["containerStatuses"][1];
                status["restartCount"] = json!(1);
                status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
            },
        ),
        ("api|Started||running, not ready||web", "web is held by podgate: waits for api=Ready.", |pod| {
            set_state(pod, "api", "Started");
            pod["status"]["containerStatuses"][1] = running("api", false);
        }),
    ];
    for (expected_row, expected_note, change) in table {
        let mut pod = held();
        change(&mut pod);
        let notes = view_of(&pod).notes;
        assert!(notes.iter().any(|note| note == expected_note), "{expected_note}: {notes:#?}");
        assert_eq!(row(&pod), expected_row);
        let is_in_docs = expected_note.starts_with("api is held") || expected_note.starts_with("api is released");
        let docs = include_str!("../../../../../docs/kubectl-podgate.md");
        assert!(!is_in_docs || docs.contains(expected_note), "docs/kubectl-podgate.md should contain: {expected_note}");
    }
}

//! Tests of `timeline`: requests to the API server, and output formats.

use crate::api_server::{Answer, FakeApiServer, Request, error_status};
use crate::pods::pod;
use crate::screen::assert_screen;
use serde_json::{Value, json};

fn serve(events: fn() -> Answer) -> FakeApiServer {
    let mut pod = pod(7, "started", "Ready", "Ready");
    pod["metadata"]["creationTimestamp"] = json!("2026-11-21T14:00:00Z");
    pod["metadata"]["annotations"]["sandbox.podgate.io/times"] =
        json!("1795269601000,db=started+0;ready+1500,api=started+1600;ready+2000");
    FakeApiServer::new(move |request: &Request| match request.path.contains("/events") {
        true => events(),
        false => Answer::Json(200, pod.clone()),
    })
}

fn events() -> Answer {
    let pulled = json!({"reason": "Pulled", "message": "Successfully pulled image \"x\" in 400ms (500ms including waiting).",
        "firstTimestamp": "2026-11-21T14:00:00Z", "involvedObject": {"fieldPath": "spec.containers{db}"}});
    // Malformed events must not hide the valid one.
    Answer::Json(200, json!({"kind": "EventList", "apiVersion": "v1", "items": [7, {"reason": 7}, pulled]}))
}

#[test]
fn timeline_draws_a_pod_with_two_requests() {
    let server = serve(events);
    let arguments = ["timeline", "ordered", "--width", "60"];
    assert_screen("timeline", &arguments, &server.run(&arguments));
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths[1].starts_with("/api/v1/namespaces/shop/events?fieldSelector=involvedObject.uid%3Du1"), "{paths:?}");
}

#[test]
fn json_is_complete() {
    let server = serve(events);
    let run = |format: &str| {
        let (code, out, err) = server.run(&["timeline", "ordered", "-o", format]);
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    let json: Value = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(
        json["containers"][0]["ready"],
        json!({"at": "2026-11-21T14:00:02.500Z", "exact": true, "by": "podgate"})
    );
    assert_eq!(json["containers"][0]["pullMs"], 500);
}

#[test]
fn timeline_works_without_events() {
    let table: [fn() -> Answer; 3] =
        [|| error_status(403, "Forbidden", "no events"), || Answer::Disconnect, || Answer::Json(200, json!("no list"))];
    for events in table {
        let (code, out, err) = serve(events).run(&["timeline", "ordered"]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("The events could not be read") && out.contains("TIME TO READY"), "{out}");
    }
}

#[test]
fn usage_errors_exit_with_64() {
    let server = serve(events);
    for (arguments, expected) in [
        (&["timeline"][..], "POD"),
        (&["timeline", "ordered", "-o", "png"], "possible values: text, json"),
        (&["timeline", "ordered", "--width", "5"], "40..=1000"),
    ] {
        let (code, _, err) = server.run(arguments);
        assert!(code == 64 && err.contains(expected), "{arguments:?}: {err}");
    }
}

//! Tests of `status -w` and `status --until-started`.

use super::pod;
use crate::api_server::{Answer, FakeApiServer, Request, error_status, watch_event};
use serde_json::Value;
use std::sync::mpsc::{Receiver, channel};

/// Returns a watch that sends `events`. Then the watch remains open if `stays_open` is true, otherwise it ends.
fn watch(events: &[String], stays_open: bool) -> Answer {
    let (sender, receiver): (_, Receiver<String>) = channel();
    for event in events {
        sender.send(event.clone()).unwrap();
    }
    if stays_open {
        // The fake server keeps the watch open until the sender is dropped.
        std::mem::forget(sender);
    }
    Answer::Watch(receiver)
}

fn is_watch(request: &Request) -> bool {
    request.path.contains("watch=true")
}

fn first() -> Value {
    pod(1, "starting", "Started", "Waiting")
}

fn rest() -> [String; 2] {
    [
        watch_event("MODIFIED", &pod(2, "starting", "Ready", "Waiting")),
        watch_event("MODIFIED", &pod(3, "started", "Ready", "Ready")),
    ]
}

#[test]
fn until_started_prints_one_line_per_change() {
    let server = FakeApiServer::new(|request: &Request| match is_watch(request) {
        true => watch(&rest(), true),
        false => Answer::Json(200, first()),
    });
    let (code, out, err) = server.run(&["status", "ordered", "--until-started"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
    let expected = [
        vec!["CONTAINER", "PODGATE", "KUBELET", "WAITS", "FOR"],
        vec!["db", "Started", "ContainerCreating", "db=Ready"],
        vec!["api", "Waiting", "ContainerCreating", "db=Ready"],
        vec!["(pod)", "starting", "Pending"],
        vec!["db", "Ready", "ContainerCreating"],
        vec!["api", "Waiting", "ContainerCreating", "the", "kubelet"],
        vec!["api", "Ready", "ContainerCreating"],
        vec!["(pod)", "started", "Pending"],
    ];
    assert_eq!(lines, expected);
    assert!(!out.contains('\u{1b}'), "{out:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    let path = &requests[1].path;
    assert!(path.contains("fieldSelector=metadata.name%3Dordered") && path.contains("resourceVersion=1"), "{path}");
}

#[test]
fn json_prints_one_object_per_change() {
    let server = FakeApiServer::new(|request: &Request| match is_watch(request) {
        true => watch(&[vec![watch_event("MODIFIED", &first())], rest().to_vec()].concat(), true),
        false => Answer::Json(200, first()),
    });
    let (code, out, _) = server.run(&["status", "ordered", "--until-started", "-o", "json"]);
    let states: Vec<Value> = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let states: Vec<&str> = states.iter().map(|view| view["containers"][0]["state"].as_str().unwrap()).collect();
    assert_eq!((code, states), (0, vec!["Started", "Ready", "Ready"]));
}

#[test]
fn watch_survives_an_unreachable_server() {
    let mut count = 0;
    let server = FakeApiServer::new(move |request: &Request| {
        count += 1;
        match (count, is_watch(request)) {
            (1, _) => Answer::Json(200, first()),
            (2, true) => watch(&rest()[..1], false),
            (3..=4, _) => Answer::Disconnect,
            (5, _) => error_status(503, "ServiceUnavailable", "down"),
            // After an error, the client reads the Pod again before the next watch.
            (6, false) => Answer::Json(200, pod(2, "starting", "Ready", "Waiting")),
            (7, true) => watch(
                &[watch_event(
                    "ERROR",
                    &serde_json::json!({"code": 410, "reason": "Expired", "message": "old",
                "status": "Failure", "kind": "Status", "apiVersion": "v1"}),
                )],
                true,
            ),
            (_, true) => watch(&rest()[1..], true),
            (_, false) => Answer::Json(200, pod(2, "starting", "Ready", "Waiting")),
        }
    });
    let (code, out, err) = server.run(&["status", "ordered", "--until-started"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("started"), "{out}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].ends_with("; retrying") && lines[1].ends_with("the API server is reachable again"), "{err}");
}

#[test]
fn status_polls_if_watching_is_forbidden() {
    let mut reads = 0;
    let server = FakeApiServer::new(move |request: &Request| {
        if is_watch(request) {
            return error_status(403, "Forbidden", "no watch");
        }
        reads += 1;
        Answer::Json(200, if reads < 3 { first() } else { pod(3, "started", "Ready", "Ready") })
    });
    let (code, _, err) = server.run(&["status", "ordered", "--until-started"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(server.requests().iter().filter(|request| is_watch(request)).count(), 1);
}

#[test]
fn pods_that_do_not_start_exit_with_3() {
    let with = |events: Vec<String>| {
        FakeApiServer::new(move |request: &Request| match is_watch(request) {
            true => watch(&events, true),
            false => Answer::Json(200, first()),
        })
    };
    let mut deleting = first();
    deleting["metadata"]["deletionTimestamp"] = "2026-11-21T14:00:00Z".into();
    let mut failed = first();
    failed["status"]["phase"] = "Failed".into();
    for (events, flags, expected) in [
        (vec![watch_event("DELETED", &first())], &["-w"][..], "the Pod \"ordered\" is gone"),
        (vec![watch_event("DELETED", &first())], &["--until-started"], "the Pod \"ordered\" is gone"),
        (vec![watch_event("MODIFIED", &deleting)], &["--until-started"], ""),
        (vec![watch_event("MODIFIED", &failed)], &["--until-started"], ""),
        (vec![], &["--until-started", "--timeout", "500ms"], "the Pod \"ordered\" has not started within 500ms"),
    ] {
        let server = with(events);
        let (code, _, err) = server.run(&[&["status", "ordered"], flags].concat());
        assert!(code == 3 && err.contains(expected), "{flags:?} {code}: {err}");
        assert_eq!(err.is_empty(), expected.is_empty(), "{flags:?}: {err}");
    }
}

#[test]
fn watch_ends_when_the_reader_closes_the_pipe() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let (sender, receiver) = channel();
    let mut lines = Some(receiver);
    let server = FakeApiServer::new(move |request: &Request| match is_watch(request) {
        true => Answer::Watch(lines.take().expect("only one watch request")),
        false => Answer::Json(200, first()),
    });
    let mut child =
        server.command(&["status", "ordered", "-w"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut head).unwrap();
    drop(output);
    sender.send(rest()[0].clone()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(3), String::new()));
}

//! Tests of `status -w` and `status --until-started`.

use crate::api_server::{Answer, FakeApiServer, error_status};
use crate::pods::pod;
use crate::screen::assert_screen;
use serde_json::Value;

fn first() -> Value {
    pod(1, "starting", "Started", "Waiting")
}

fn second() -> Value {
    pod(2, "starting", "Ready", "Waiting")
}

fn started() -> Value {
    pod(3, "started", "Ready", "Ready")
}

/// One answer of the server.
type Reply = fn() -> Answer;

/// Starts a server that gives one answer to each read of the Pod, and repeats the last answer.
fn serve(answers: Vec<Reply>) -> FakeApiServer {
    let mut reads = 0;
    FakeApiServer::new(move |request| {
        assert!(request.method == "GET" && !request.path.contains("watch"), "{request:?}");
        reads += 1;
        answers[(reads - 1).min(answers.len() - 1)]()
    })
}

const FIRST: Reply = || Answer::Json(200, first());
const SECOND: Reply = || Answer::Json(200, second());
const STARTED: Reply = || Answer::Json(200, started());

#[test]
fn until_started_prints_one_line_per_change() {
    let server = serve(vec![FIRST, FIRST, SECOND, STARTED]);
    let arguments = ["status", "ordered", "--until-started"];
    let (code, out, err) = server.run(&arguments);
    // Each line but the first begins with the time at which the command read the Pod.
    let timeless = |line: &str| match line.split_once(' ') {
        Some((time, rest)) if humantime::parse_rfc3339(time).is_ok() => format!("2026-11-21T14:00:00Z {rest}\n"),
        _ => format!("{line}\n"),
    };
    assert_screen("status-until-started", &arguments, &(code, out.lines().map(timeless).collect(), err));
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn json_prints_one_object_per_change() {
    let server = serve(vec![FIRST, FIRST, SECOND, STARTED]);
    let (code, out, _) = server.run(&["status", "ordered", "--until-started", "-o", "json"]);
    let states: Vec<Value> = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let states: Vec<&str> = states.iter().map(|view| view["containers"][0]["state"].as_str().unwrap()).collect();
    assert_eq!((code, states), (0, vec!["Started", "Ready", "Ready"]));
}

#[test]
fn failed_reads_are_reported_once_and_tried_again() {
    let down = || error_status(503, "ServiceUnavailable", "down");
    let server = serve(vec![FIRST, || Answer::Disconnect, down, SECOND, STARTED]);
    let (code, out, err) = server.run(&["status", "ordered", "--until-started"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("started"), "{out}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].ends_with("; retrying") && lines[1].ends_with("the API server is reachable again"), "{err}");
}

#[test]
fn pods_that_do_not_start_exit_with_3() {
    let gone = || error_status(404, "NotFound", "pods \"ordered\" not found");
    // A StatefulSet has created the Pod again.
    let replaced = || {
        let mut pod = started();
        pod["metadata"]["uid"] = "other".into();
        Answer::Json(200, pod)
    };
    let deleting = || {
        let mut pod = first();
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T14:00:00Z".into();
        Answer::Json(200, pod)
    };
    let failed = || {
        let mut pod = first();
        pod["status"]["phase"] = "Failed".into();
        Answer::Json(200, pod)
    };
    let cases: [(Reply, &[&str], &str); 6] = [
        (gone, &["-w"], "the Pod \"ordered\" is gone"),
        (gone, &["--until-started"], "the Pod \"ordered\" is gone"),
        (replaced, &["--until-started"], "the Pod \"ordered\" is gone"),
        (deleting, &["--until-started"], ""),
        (failed, &["--until-started"], ""),
        (FIRST, &["--until-started", "--timeout", "1500ms"], "the Pod \"ordered\" has not started within 1s 500ms"),
    ];
    for (answer, flags, expected) in cases {
        let server = serve(vec![FIRST, answer]);
        let (code, _, err) = server.run(&[&["status", "ordered"], flags].concat());
        assert!(code == 3 && err.contains(expected), "{flags:?} {code}: {err}");
        assert_eq!(err.is_empty(), expected.is_empty(), "{flags:?}: {err}");
    }
}

#[test]
fn watch_ends_when_the_reader_closes_the_pipe() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let server = serve(vec![FIRST, SECOND]);
    let mut child =
        server.command(&["status", "ordered", "-w"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut head).unwrap();
    drop(output);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(3), String::new()));
}

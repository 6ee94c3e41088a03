//! `override`: what it asks of the API server, and what it refuses.

use crate::server::{Answer, FakeApiServer, Request, error_status};
use crate::{SANDBOX, pod};
use serde_json::{Value, json};

/// What the server makes of a patch.
type Patch = fn() -> Answer;

fn serve(pod: Value, patch: Patch) -> FakeApiServer {
    FakeApiServer::new(move |request: &Request| match request.method.as_str() {
        "GET" => Answer::Json(200, pod.clone()),
        "PATCH" => patch(),
        "POST" => Answer::Json(201, json!({"status": {"userInfo": {"username": "alice"}}})),
        other => panic!("{other}"),
    })
}

fn done() -> Answer {
    Answer::Json(
        200,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "ordered"}}),
    )
}

fn starting() -> Value {
    pod(7, "starting", "Started", "Waiting")
}

#[test]
fn writes_one_annotation_for_this_sandbox_and_says_what_it_opens() {
    let server = serve(starting(), done);
    let (code, out, err) = server.run(&["override", "ordered", "db=Ready"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for says in [
        "changed Pod shop/ordered (uid u1) as alice",
        "override.podgate.io/db = Ready@3f2a9c1e-4097-1a0c5f3b",
        "db was Started until now",
        "opens the hook of db (db=Ready); the kubelet starts api next",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let asked = server.requests();
    let patch = asked.iter().find(|request| request.method == "PATCH").expect("a patch");
    assert_eq!(patch.path, "/api/v1/namespaces/shop/pods/ordered?&fieldManager=kubectl-podgate");
    let body: Value = serde_json::from_str(&patch.body).unwrap();
    let value = format!("Ready@{SANDBOX}");
    // The uid: a pod of that name that comes later is not this one.
    assert_eq!(body, json!({"metadata": {"uid": "u1", "annotations": {"override.podgate.io/db": value}}}));
}

#[test]
fn takes_it_back() {
    let mut set = starting();
    set["metadata"]["annotations"]["override.podgate.io/db"] = json!(format!("Ready@{SANDBOX}"));
    for arguments in [&["override", "ordered", "--remove", "db"][..], &["override", "--remove", "ordered"]] {
        let server = serve(set.clone(), done);
        let (code, out, _) = server.run(arguments);
        assert!(code == 0 && out.contains("override.podgate.io/db removed (was Ready@3f2a"), "{out}");
        let asked = server.requests();
        let patch = asked.iter().find(|request| request.method == "PATCH").expect("a patch");
        let body: Value = serde_json::from_str(&patch.body).unwrap();
        assert_eq!(body["metadata"]["annotations"], json!({"override.podgate.io/db": null}));
    }
    let server = serve(starting(), done);
    let (code, out, _) = server.run(&["override", "ordered", "--remove"]);
    assert_eq!((code, out.as_str(), server.requests().len()), (0, "Nothing was set by hand.\n", 1));
    let (code, _, err) = server.run(&["override", "ordered", "--remove", "db"]);
    assert!(code == 1 && err.contains("nothing was set by hand of db"), "{err}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let server = serve(starting(), done);
    let (code, out, _) = server.run(&["override", "ordered", "db=Ready", "--dry-run", "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["dryRun"], &json["by"]), (0, &json!(true), &json!("alice")));
    assert_eq!(json["changes"][0]["opens"][0]["thenStarts"], "api");
    assert!(server.requests().iter().all(|request| request.method != "PATCH"));
}

#[test]
fn what_can_not_be_is_one_line_and_1_and_changes_nothing() {
    let bare = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "ordered"},
                      "spec": {"nodeName": "n", "containers": [{"name": "db"}]}});
    for (pod, wish, says) in [
        (starting(), "nobody=Ready", "the Pod has no container nobody; it has db, api"),
        (bare, "db=Ready", "no sandbox is known that the state could be set for"),
        (pod(7, "terminating", "Ready", "Ready"), "nobody=Ready", "the Pod has no container nobody"),
    ] {
        let server = serve(pod, done);
        let (code, out, err) = server.run(&["override", "ordered", wish]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.starts_with("kubectl podgate: ") && err.contains(says) && err.matches('\n').count() == 1, "{err}");
        assert!(server.requests().iter().all(|request| request.method == "GET"));
    }
}

#[test]
fn what_the_server_refuses_is_said_in_clear_words() {
    let table: [(Patch, &str); 4] = [
        (|| error_status(403, "Forbidden", "user u can't"), "not allowed to patch the Pod \"ordered\": user u can't"),
        (|| error_status(409, "Conflict", "uid"), "has been replaced by another one meanwhile; nothing was changed"),
        (|| error_status(404, "NotFound", "x"), "no Pod \"ordered\" in namespace \"shop\""),
        (|| Answer::Disconnect, "request to http://127.0.0.1:"),
    ];
    for (patch, says) in table {
        let server = serve(starting(), patch);
        let (code, out, err) = server.run(&["override", "ordered", "db=Ready"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(says) && err.matches('\n').count() == 1, "{err}");
    }
}

#[test]
fn a_wrong_command_line_is_64_and_asks_nothing() {
    let server = serve(starting(), done);
    for (arguments, says) in [
        (&["override", "ordered"][..], "CONTAINER=STATE"),
        (&["override", "ordered", "db"], "db: to which state? Write db=Ready"),
        (&["override", "ordered", "db=ready"], "one of Started, Ready, Completed, Failed"),
        (&["override", "ordered", "db=Exited"], "set Completed"),
        (&["override", "ordered", "DB=Ready"], "no container's name"),
        (&["override", "ordered", "db=Ready", "db=Started"], "db is named twice"),
        (&["override", "ordered", "--remove", "db=Ready"], "takes the container alone"),
    ] {
        let (code, out, err) = server.run(arguments);
        assert_eq!((code, out.as_str()), (64, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    assert!(server.requests().is_empty());
}

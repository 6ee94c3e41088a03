//! Tests of `override`: requests to the API server, and errors.

use crate::server::{Answer, FakeApiServer, Request, error_status};
use crate::{SANDBOX, pod};
use serde_json::{Value, json};

/// Function that returns the server's response to a patch.
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
fn override_writes_one_annotation_and_prints_effects() {
    let server = serve(starting(), done);
    let (code, out, err) = server.run(&["override", "ordered", "db=Ready"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for expected in [
        "changed Pod shop/ordered (uid u1) as alice",
        "override.podgate.io/db = Ready@3f2a9c1e-4097-1a0c5f3b",
        "db was Started until now",
        "opens the hook of db (db=Ready); the kubelet starts api next",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let requests = server.requests();
    let patch = requests.iter().find(|request| request.method == "PATCH").expect("no PATCH request");
    assert_eq!(patch.path, "/api/v1/namespaces/shop/pods/ordered?&fieldManager=kubectl-podgate");
    let body: Value = serde_json::from_str(&patch.body).unwrap();
    let value = format!("Ready@{SANDBOX}");
    // The patch contains the uid, so that the server rejects the patch for a later Pod of the same name.
    assert_eq!(body, json!({"metadata": {"uid": "u1", "annotations": {"override.podgate.io/db": value}}}));
}

#[test]
fn remove_deletes_the_annotation() {
    let mut set = starting();
    set["metadata"]["annotations"]["override.podgate.io/db"] = json!(format!("Ready@{SANDBOX}"));
    set["metadata"]["annotations"]["override.podgate.io/gone"] = json!("Ready@x");
    for (arguments, removed) in [
        (&["override", "ordered", "--remove", "db"][..], json!({"override.podgate.io/db": null})),
        (
            &["override", "--remove", "ordered"],
            json!({"override.podgate.io/db": null, "override.podgate.io/gone": null}),
        ),
    ] {
        let server = serve(set.clone(), done);
        let (code, out, _) = server.run(arguments);
        assert!(code == 0 && out.contains("override.podgate.io/db removed (was Ready@3f2a"), "{out}");
        let requests = server.requests();
        let patch = requests.iter().find(|request| request.method == "PATCH").expect("no PATCH request");
        let body: Value = serde_json::from_str(&patch.body).unwrap();
        assert_eq!(body["metadata"]["annotations"], removed);
    }
    let server = serve(starting(), done);
    let (code, out, _) = server.run(&["override", "ordered", "--remove"]);
    assert_eq!((code, out.as_str(), server.requests().len()), (0, "The Pod has no overrides.\n", 1));
    let (code, _, err) = server.run(&["override", "ordered", "--remove", "db"]);
    assert!(code == 1 && err.contains("db has no override; containers with an override: none"), "{err}");
}

#[test]
fn dry_run_changes_nothing() {
    let server = serve(starting(), done);
    let (code, out, _) = server.run(&["override", "ordered", "db=Ready", "--dry-run", "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["dryRun"], &json["by"]), (0, &json!(true), &json!("alice")));
    assert_eq!(json["changes"][0]["opens"][0]["thenStarts"], "api");
    assert!(server.requests().iter().all(|request| request.method != "PATCH"));
}

#[test]
fn impossible_overrides_fail_with_one_line() {
    let bare = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "ordered"},
                      "spec": {"nodeName": "n", "containers": [{"name": "db"}]}});
    for (pod, target, expected) in [
        (starting(), "missing=Ready", "the Pod has no container missing; it has db, api"),
        (bare, "db=Ready", "the Pod's sandbox is unknown, so no state can be set"),
        (pod(7, "terminating", "Ready", "Ready"), "missing=Ready", "the Pod has no container missing"),
    ] {
        let server = serve(pod, done);
        let (code, out, err) = server.run(&["override", "ordered", target]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.starts_with("kubectl podgate: ") && err.contains(expected), "{err}");
        assert_eq!(err.matches('\n').count(), 1, "{err}");
        assert!(server.requests().iter().all(|request| request.method == "GET"));
    }
}

#[test]
fn server_errors_are_explained() {
    let table: [(Patch, &str); 4] = [
        (|| error_status(403, "Forbidden", "user u can't"), "not allowed to patch the Pod \"ordered\": user u can't"),
        (|| error_status(409, "Conflict", "uid"), "was replaced by another Pod in the meantime; nothing was changed"),
        (|| error_status(404, "NotFound", "x"), "no Pod \"ordered\" in namespace \"shop\""),
        (|| Answer::Disconnect, "request to http://127.0.0.1:"),
    ];
    for (patch, expected) in table {
        let server = serve(starting(), patch);
        let (code, out, err) = server.run(&["override", "ordered", "db=Ready"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(expected) && err.matches('\n').count() == 1, "{err}");
    }
}

#[test]
fn usage_errors_exit_with_64_and_send_no_request() {
    let server = serve(starting(), done);
    for (arguments, expected) in [
        (&["override", "ordered"][..], "CONTAINER=STATE"),
        (&["override", "ordered", "db"], "db: the state is missing; write for example db=Ready"),
        (&["override", "ordered", "db=ready"], "one of Started, Ready, Completed, Failed"),
        (&["override", "ordered", "db=Exited"], "set Completed"),
        (&["override", "ordered", "DB=Ready"], "not a valid container name"),
        (&["override", "ordered", "db=Ready", "db=Started"], "db is given twice"),
        (&["override", "ordered", "--remove", "db=Ready"], "takes only the container name"),
    ] {
        let (code, out, err) = server.run(arguments);
        assert_eq!((code, out.as_str()), (64, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    assert!(server.requests().is_empty());
}

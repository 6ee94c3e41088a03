//! Tests of `override`: requests to the API server, and errors.

use crate::api_server::{Answer, FakeApiServer, Request, error_status};
use crate::pods::{Change, SANDBOX, docs, gate, held, hook, pod, running};
use crate::screen::assert_screen;
use serde_json::{Value, json};

/// Function that returns the server's response to a patch.
type Patch = fn() -> Answer;

fn serve(pod: Value, patch: Patch) -> FakeApiServer {
    FakeApiServer::new(move |request: &Request| match request.method.as_str() {
        "GET" => Answer::Json(200, pod.clone()),
        "PATCH" => patch(),
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

/// Replaces the current time and the server's address in the output.
fn fixed(out: &str, server: &FakeApiServer) -> String {
    let (_, rest) = out.split_once(' ').unwrap();
    format!("2026-11-21T14:00:12Z {rest}").replace(&server.address, "https://10.0.0.1:6443")
}

#[test]
fn override_writes_one_annotation_and_prints_effects() {
    let server = serve(starting(), done);
    let arguments = ["override", "ordered", "db=Ready"];
    let (code, out, err) = server.run(&arguments);
    assert_screen("override", &arguments, &(code, fixed(&out, &server), err));
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
    let arguments = ["override", "ordered", "db=Ready", "--dry-run"];
    let (code, out, err) = server.run(&arguments);
    assert_screen("override-dry-run", &arguments, &(code, fixed(&out, &server), err));
    assert!(server.requests().iter().all(|request| request.method != "PATCH"));
}

/// Returns a Pod in which `db` has started. `db` and `api` have hooks, `web` and `worker` have gates.
fn hooks_and_gates() -> Value {
    json!({
        "metadata": {"name": "ordered", "uid": "7d1f0c9a-41c5-4a7e-9e0b-1f1d2c3b4a5d", "creationTimestamp": "2026-11-21T14:00:04Z", "annotations": {
            "sandbox.podgate.io/id": SANDBOX, "sandbox.podgate.io/epoch": "e1", "sandbox.podgate.io/revision": "5",
            "sandbox.podgate.io/stage": "starting", "sandbox.podgate.io/order": "db,api,web,worker",
            "sandbox.podgate.io/seen": "2026-11-21T14:00:10Z",
            "status.podgate.io/db": "Started", "status.podgate.io/api": "Waiting",
            "status.podgate.io/web": "Waiting", "status.podgate.io/worker": "Waiting"}},
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "once"}, {"name": "podgate", "restartPolicy": "Always", "command": ["/bin/podgate-controller"]}],
            "containers": [hook("db", &[]), hook("api", &[]), gate("web", &["db", "api"]), gate("worker", &["db=Started", "db=Completed"])]},
        "status": {"initContainerStatuses": [{"name": "podgate", "state": {"running": {"startedAt": "2026-11-21T14:00:05Z"}}}]}
    })
}

/// Returns the line that describes the effect of an override.
fn effect(pod: &Value, target: &str) -> String {
    let (code, out, err) = serve(pod.clone(), done).run(&["override", "ordered", "--dry-run", target]);
    assert_eq!(code, 0, "{err}");
    let mut lines = out.lines().filter_map(|line| line.strip_prefix("  "));
    let line = lines.next().expect("a line").to_owned();
    assert_eq!(lines.next(), None, "{out}");
    line
}

#[test]
fn effect_names_the_containers_that_wait() {
    let was = |state: &str| format!("was {state} until now (published state); it held back");
    let pod = hooks_and_gates();
    assert_eq!(effect(&pod, "db=Ready"), format!("db {} api, web, worker", was("Started")));
    assert_eq!(effect(&pod, "api=Ready"), format!("api {} web", was("Waiting")));
    assert_eq!(effect(&pod, "worker=Ready"), format!("worker {} no container", was("Waiting")));
    let mut started = hooks_and_gates();
    started["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("started");
    started["metadata"]["annotations"]["status.podgate.io/web"] = json!("Started");
    assert!(!effect(&started, "db=Ready").contains("web"));
    let mut pod = held();
    assert!(effect(&pod, "db=Ready").ends_with("it held back api"));
    pod["metadata"]["annotations"]["status.podgate.io/api"] = json!("Violated");
    pod["status"]["containerStatuses"][1] = running("api", true);
    assert!(effect(&pod, "db=Ready").ends_with("it held back no container"));
}

#[test]
fn impossible_overrides_fail_with_one_line() {
    let table: [(&str, &str, Change); 11] = [
        ("missing", "the sidecar does not track missing", |_| {}),
        ("missing", "the sidecar does not track missing", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("terminating");
        }),
        ("podgate", "the sidecar does not track podgate", |_| {}),
        ("once", "the sidecar does not track once", |_| {}),
        ("db", "is being deleted", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z")),
        ("db", "sandbox is unknown, so no state can be set. The sidecar has published nothing yet", |pod| {
            pod["metadata"]["annotations"] = json!({});
        }),
        (
            "db",
            "no state can be set. The sidecar publishes no states (--publish none). To see them, set podgate.io",
            |pod| {
                pod["metadata"]["annotations"] = json!({});
                pod["spec"]["initContainers"][1]["args"] = json!(["--publish", "none"]);
            },
        ),
        ("db", "sandbox is unknown, so no state can be set. The Pod has no podgate sidecar, hook or gate", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("db", "sandbox is unknown, so no state can be set. The published state is invalid", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/id"] = json!("x");
        }),
        ("db", "the published state is outdated (the sidecar has restarted since); retry", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("db", "the sidecar does not track db", |pod| {
            pod["metadata"]["annotations"].as_object_mut().unwrap().remove("status.podgate.io/db");
        }),
    ];
    for (container, expected, change) in table {
        let mut pod = hooks_and_gates();
        change(&mut pod);
        let server = serve(pod, done);
        let (code, out, err) = server.run(&["override", "ordered", &format!("{container}=Ready")]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.starts_with("error: ") && err.contains(expected), "{err}");
        assert_eq!(err.matches('\n').count(), 1, "{err}");
        assert!(server.requests().iter().all(|request| request.method == "GET"));
    }
}

#[test]
fn docs_show_this_output() {
    let server = serve(hooks_and_gates(), done);
    let (_, out, _) = server.run(&["override", "ordered", "db=Ready"]);
    let written = fixed(&out, &server);
    assert!(docs().contains(&written), "docs/watching.md should contain:\n{written}");
}

#[test]
fn server_errors_are_explained() {
    let table: [(Patch, &str); 4] = [
        (
            || error_status(403, "Forbidden", "user u cannot"),
            "access to the Pod \"ordered\" denied: user u cannot; ask for this permission",
        ),
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
        (
            &["override", "ordered", "db=Exited"],
            "\"Exited\" cannot be set; set one of Started, Ready, Completed, Failed",
        ),
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

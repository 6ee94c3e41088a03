//! Tests of `status` for Pods in several states.

use super::pods::{
    Change, assert_fields_in_docs, chain, docs, gate, hook, joined, notes, running, serve, status_json, status_text,
    with_published,
};
use crate::api_server::{Answer, FakeApiServer, Request};
use podgate::order::inject::{Options, inject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::time::SystemTime;

fn rows(view: &Value) -> &[Value] {
    view["containers"].as_array().unwrap()
}

/// Returns `NAME: CONDITIONS | HELD-BACK CONTAINERS` of each container that has either.
fn waits(view: &Value) -> Vec<String> {
    let describe = |row: &Value| {
        let conditions = row["waitsFor"].as_array().unwrap().iter();
        let conditions: Vec<String> = conditions
            .map(|c| format!("{} ({})", c["condition"].as_str().unwrap(), c["standing"].as_str().unwrap()))
            .collect();
        format!("{}: {} | {}", row["name"].as_str().unwrap(), conditions.join(", "), joined(&row["holdsBack"], ", "))
    };
    rows(view).iter().map(describe).filter(|text| !text.ends_with(":  | ")).collect()
}

#[test]
fn waits_follow_the_progress_of_the_start() {
    let (db, api) = ("db=Ready (not-yet)", "api=Ready (not-yet)");
    let of_db = vec![format!("db: {db} | api, web"), format!("api: {db} | web"), format!("web: {db}, {api} | ")];
    let of_api = vec![format!("api: {api} | web"), format!("web: {api} | ")];
    for (stage, states, expected) in [
        // The sidecar has just started.
        ("starting", ["Waiting", "Waiting", "Waiting"], of_db.clone()),
        ("starting", ["Started", "Waiting", "Waiting"], of_db),
        // db's hook has been released, and the kubelet starts api next.
        ("starting", ["Ready", "Waiting", "Waiting"], of_api.clone()),
        ("starting", ["Ready", "Started", "Waiting"], of_api.clone()),
        // Because api runs, db's hook has returned, even if db is no longer Ready.
        ("starting", ["NotReady", "Started", "Waiting"], of_api),
        ("started", ["Ready", "Ready", "Started"], vec![]),
        ("started", ["Failed", "Ready", "Started"], vec![]),
        ("terminating", ["Started", "Waiting", "Waiting"], vec![]),
    ] {
        let view = status_json(&with_published(chain(), stage, states));
        assert_eq!(waits(&view), expected, "{stage} {states:?}");
        assert_eq!(view["started"], stage == "started");
    }
}

#[test]
fn impossible_conditions_are_marked_never() {
    let mut pod = with_published(chain(), "starting", ["Failed", "Waiting", "Waiting"]);
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    let view = status_json(&pod);
    assert!(waits(&view)[0].starts_with("db: db=Ready (never) |"), "{:?}", waits(&view));
    assert!(notes(&view).iter().any(|note| note.starts_with("db has ended, and the kubelet will not restart it")));
}

#[test]
fn a_gate_blocks_only_its_own_container() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"] = json!([{"name": "db"}, gate("api", &["db"]), gate("web", &["db=Started"])]);
    assert_eq!(waits(&status_json(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
    // The gate of a restarted container is closed, although the Pod has started.
    pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("started");
    assert_eq!(waits(&status_json(&pod)), ["db:  | api", "api: db=Ready (not-yet) | "]);
}

#[test]
fn checks_and_unpublished_conditions_are_unknown() {
    let mut pod = with_published(chain(), "starting", ["Ready", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0] = hook("db", &["--check", "tcp://127.0.0.1:1"]);
    assert_eq!(waits(&status_json(&pod))[0], "db: tcp://127.0.0.1:1 (unknown) | api, web");

    let mut gated = with_published(chain(), "starting", ["Waiting", "Waiting", "Waiting"]);
    gated["spec"]["containers"][0] = gate("db", &[]);
    let words = gated["spec"]["containers"][0]["command"].as_array_mut().unwrap();
    words.extend([json!("--check"), json!("file:///a")]);
    let view = status_json(&gated);
    assert_eq!(waits(&view)[0], "db: file:///a (unknown) | ");
    let takes = "the check must pass; its result is not published (see the container's log)";
    assert!(view.to_string().contains(takes), "{view:#}");

    let view = status_json(&chain());
    let unknown = "db=Ready (unknown)";
    assert_eq!(waits(&view)[..2], [format!("db: {unknown} | api, web"), format!("api: {unknown} | web")]);
    assert_eq!(view["started"], false);
    assert!(notes(&view)[0].starts_with("The sidecar has published nothing yet"), "{view:#}");
}

#[test]
fn kubelet_status_counts_if_nothing_is_published() {
    let mut pod = chain();
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", false)]);
    let view = status_json(&pod);
    assert!(view["started"] == true && waits(&view).is_empty(), "{view:#}");
}

/// The kubelet counts a container that waits in its gate as running. Without the role, nothing is published.
#[test]
fn pod_has_not_started_while_a_gate_waits() {
    let list = r#"[{"name":"migrate"},{"name":"api","mode":"entrypoint","until":["migrate=Completed"]}]"#;
    let mut pod = chain();
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value": list}]);
    let mut api = gate("api", &["migrate=Completed"]);
    api["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--wait"]}});
    pod["spec"]["containers"] = json!([{"name": "migrate"}, api]);
    for has_opened in [false, true] {
        let mut of_api = running("api", has_opened);
        of_api["started"] = json!(has_opened);
        pod["status"]["containerStatuses"] = json!([running("migrate", true), of_api]);
        let view = status_json(&pod);
        assert_eq!((&view["started"], waits(&view).is_empty()), (&json!(has_opened), has_opened), "{view:#}");
        let takes = "migrate must exit with 0; podgate sees this only with its role: kubectl podgate install";
        assert_eq!(view.to_string().contains(takes), !has_opened, "{view:#}");
    }
    // A restarted gate waits again, although the Pod has started before.
    let states = ["Started", "Waiting", "Ready"];
    let view = status_json(&with_published(pod, "started", states));
    assert!(view["started"] == false, "{view:#}");
}

#[test]
fn since_has_its_source_or_is_absent() {
    let since = |pod: &Value| {
        let describe = |row: &Value| {
            let (since, name) = (&row["since"], row["name"].as_str().unwrap());
            let seconds = since["at"].as_str()?.strip_prefix("2026-11-21T14:00:").unwrap();
            Some(format!("{name} {seconds} {}", since["by"].as_str().unwrap()))
        };
        rows(&status_json(pod)).iter().filter_map(describe).collect::<Vec<_>>()
    };
    // Waiting containers have been waiting since the sidecar started.
    let pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    assert_eq!(since(&pod), ["podgate 05Z kubelet", "db 06.250Z podgate", "api 05Z kubelet", "web 05Z kubelet"]);
    let mut gated = pod.clone();
    gated["metadata"]["annotations"]["sandbox.podgate.io/times"] = json!("1795269602000,api=gate+1000,web=since+2000");
    assert_eq!(since(&gated), ["podgate 05Z kubelet", "api 03.000Z podgate", "web 04.000Z podgate"]);
    // Times of a previous sidecar are ignored.
    let mut stale = pod.clone();
    stale["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-21T14:00:01Z");
    assert_eq!(since(&stale), ["podgate 05Z kubelet"]);
    let mut frozen = chain();
    frozen["status"]["containerStatuses"] = json!([running("db", true),
        {"name": "api", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T14:00:09Z"}}}]);
    assert_eq!(since(&frozen), ["podgate 05Z kubelet", "db 05Z kubelet", "api 09Z kubelet"]);
}

#[test]
fn conditions_describe_what_is_needed() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["spec"]["containers"][0]["startupProbe"] = json!({"exec": {"command": ["/podgate/bin/podgate", "opened"]}});
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": "web"}});
    pod["spec"]["containers"][2] =
        gate("web", &["db", "api=Ready", "api=Completed", "api=Exited", "api=Started", "gone=Ready"]);
    let takes = |pod: &Value| {
        let view = status_json(pod);
        let conditions = view["containers"][3]["waitsFor"].as_array().unwrap().iter();
        conditions.map(|c| c["takes"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = [
        "db must pass its readinessProbe (httpGet :web/)",
        "api must start (it has no probe)",
        "api must exit with 0",
        "api must exit",
        "api must start",
        "the Pod has no container gone",
    ];
    assert_eq!(takes(&pod), all);
    // The sidecar's list has the application's own probes. The list takes precedence over the spec.
    pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PODGATE_CONTAINERS", "value":
        r#"[{"name":"db","startupProbe":{"exec":{"command":["sh","-c","$$(x)"]}},"readinessProbe":{"grpc":{"port":9}}}]"#}]);
    assert_eq!(takes(&pod)[0], "db must pass its startupProbe (exec sh -c $(x)), then its readinessProbe (grpc :9)");
    pod["metadata"]["annotations"]["status.podgate.io/db"] = json!("Failed");
    pod["metadata"]["annotations"]["sandbox.podgate.io/stuck"] = json!("db=Ended");
    assert_eq!(takes(&pod)[0], "db has ended for good; create a new Pod, or override the state of db");
}

#[test]
fn notes_explain_unusual_situations() {
    let table: [(&str, Change); 12] = [
        ("While the hook of db waits (at most 2m), the kubelet does not update", |_| {}),
        ("Nothing is published yet: the Pod has no node.", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["nodeName"] = Value::Null;
        }),
        ("Nothing is published yet: the sidecar podgate is not running (ImagePullBackOff).", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["status"]["initContainerStatuses"][0]["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
        }),
        ("podgate is stuck: ImagePullBackOff (no such image).", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        }),
        ("The Pod has no sidecar: its hooks run their own checks", |pod| {
            pod["metadata"]["annotations"] = json!({});
            pod["spec"]["initContainers"] = json!([]);
        }),
        ("The Pod has no podgate sidecar, hook or gate", |pod| {
            pod["metadata"]["annotations"] = json!({"a": "b"});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("The Pod declares an order, but was created without podgate's sidecar", |pod| {
            pod["metadata"]["annotations"] = json!({"podgate.io/order": "db, api"});
            pod["spec"] = json!({"nodeName": "n", "containers": [{"name": "db"}]});
        }),
        ("The published state is invalid: sandbox.podgate.io/stage is missing or malformed.", |pod| {
            pod["metadata"]["annotations"]["sandbox.podgate.io/stage"] = json!("done");
        }),
        ("The published state is ignored: it is older than the Pod, so it comes from the Pod's template", |pod| {
            pod["metadata"]["creationTimestamp"] = json!("2026-11-21T14:00:11Z");
            pod["metadata"]["annotations"]["sandbox.podgate.io/seen"] = json!("2026-11-20T14:00:00Z");
        }),
        ("The published state is ignored: the sidecar has restarted since", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-21T14:00:12Z");
        }),
        ("An operator has set db to Ready by hand", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@3f2a9c1e-4097-1a0c5f3b");
        }),
        ("override.podgate.io/db=Ready@x has no effect", |pod| {
            pod["metadata"]["annotations"]["override.podgate.io/db"] = json!("Ready@x");
        }),
    ];
    for (expected, change) in table {
        let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
        change(&mut pod);
        let view = status_json(&pod);
        assert!(notes(&view).iter().any(|note| note.contains(expected)), "{expected}: {:#}", view["notes"]);
    }
}

#[test]
fn a_healthy_started_pod_has_no_notes() {
    let mut pod = with_published(chain(), "started", ["Ready", "Ready", "Ready"]);
    pod["status"]["containerStatuses"] = json!([running("db", true), running("api", true), running("web", true)]);
    let view = status_json(&pod);
    assert_eq!((&view["started"], &view["notes"]), (&json!(true), &json!([])));
    assert_eq!(view["summary"], "Pod shop/ordered has started.");
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T14:00:11Z");
    assert_eq!(status_json(&pod)["started"], false);
}

#[test]
fn docs_show_this_output() {
    // The ages and the width of their column depend on the current time.
    let ageless = |text: &str| {
        let mut words: Vec<&str> = Vec::new();
        for word in text.split_whitespace() {
            if word.trim_end_matches(':') == "ago" {
                words.truncate(words.len() - 2);
            }
            words.push(word);
        }
        words.join(" ")
    };
    let pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    let plain = status_text(&pod);
    assert!(ageless(docs()).contains(&ageless(&plain)), "docs/kubectl-podgate.md should contain:\n{plain}");
    let colored = serve(&pod).command(&["status", "ordered"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8(colored.stdout).unwrap().contains("\u{1b}[1mPod shop/ordered"), "the summary is bold");
}

#[test]
fn json_has_the_documented_fields() {
    let json = status_json(&with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]));
    let mut published = json["published"].clone();
    assert!(published["seenSecondsAgo"].take().is_u64());
    assert_eq!(
        published,
        json!({"stage": "starting", "sandbox": "3f2a9c1e-4097-1a0c5f3b", "epoch": "e1", "revision": 5,
               "seen": "2026-11-21T14:00:10Z", "seenSecondsAgo": null})
    );
    let db = &json["containers"][1];
    let keys = |value: &Value| {
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    assert_eq!(keys(&json), "containers deleting namespace node notes order pod podPhase published started summary");
    assert_eq!(keys(db), "holdsBack kubelet mode name role since state stuck timeout waitsFor");
    assert_eq!(
        db["waitsFor"],
        json!([{"condition": "db=Ready", "standing": "not-yet", "gateOf": "db",
                "takes": "db must pass its readinessProbe (tcpSocket :5432)"}])
    );
    assert_eq!((&db["since"]["at"], &db["since"]["by"]), (&json!("2026-11-21T14:00:06.250Z"), &json!("podgate")));
    let at = humantime::parse_rfc3339("2026-11-21T14:00:06.250Z").unwrap();
    let age = SystemTime::now().duration_since(at).unwrap_or_default().as_secs();
    let shown = db["since"]["secondsAgo"].as_u64().unwrap();
    assert!((shown..shown + 60).contains(&age), "{shown} instead of {age}");
    assert_eq!(
        (&db["role"], &db["mode"], &db["kubelet"]["reason"]),
        (&json!("container"), &json!("post-start"), &json!("ContainerCreating"))
    );
    assert_fields_in_docs(&json, &["", "/containers/1", "/containers/1/kubelet"]);
}

#[test]
fn first_line_names_what_is_wrong() {
    let mut pod = with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]);
    pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let expected =
        "Pod shop/ordered is starting: db is stuck: CrashLoopBackOff; db holds back api, web until db=Ready.";
    assert_eq!(status_json(&pod)["summary"], expected);
    let pod = with_published(chain(), "started", ["NotReady", "Ready", "Failed"]);
    assert_eq!(status_json(&pod)["summary"], "Pod shop/ordered has started, but db is NotReady, and web is Failed.");
}

#[test]
fn workload_shows_each_pod_or_why_there_is_none() {
    let pods = |names: &[&str]| -> Value {
        let named = |name: &&str| {
            let mut pod = with_published(chain(), "started", ["Ready", "Ready", "Started"]);
            pod["metadata"]["name"] = json!(name);
            pod
        };
        json!({"items": names.iter().map(named).collect::<Vec<_>>()})
    };
    let run = |list: Value, conditions: Value, replicas: u32, words: &[&str]| {
        let server = FakeApiServer::new(move |request: &Request| {
            let path = &request.path;
            Answer::Json(
                200,
                match () {
                    () if path.contains("/pods?") => {
                        assert!(path.contains("labelSelector=app%3Dshop"), "{path}");
                        list.clone()
                    }
                    () if path.contains("/events?") => json!({"items": [
                    {"message": "old", "lastTimestamp": "2026-11-21T14:00:00Z"},
                    {"message": "denied by podgate", "lastTimestamp": "2026-11-21T14:00:01Z"}]}),
                    () => json!({"metadata": {"uid": "u"}, "status": {"conditions": conditions},
                    "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "shop"}}}}),
                },
            )
        });
        server.run(&[&["status"], words].concat())
    };
    let (code, out, err) = run(pods(&["shop-1", "shop-2"]), json!([]), 2, &["deployment/shop"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("Pod shop/shop-1 has started.") && out.contains("Pod shop/shop-2 has started."), "{out}");
    let (_, out, _) = run(pods(&["shop-1"]), json!([]), 2, &["deploy/shop", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()[0]["pod"], "shop-1");

    let failed = json!([{"type": "ReplicaFailure", "message": "there is no container apii"}]);
    for (conditions, replicas, expected) in [
        (failed, 2, "deployments/shop has no Pods: there is no container apii"),
        (json!([]), 2, "deployments/shop has no Pods: denied by podgate"),
    ] {
        let (code, _, err) = run(pods(&[]), conditions, replicas, &["deploy/shop"]);
        assert!(code == 1 && err.contains(expected), "{err}");
    }
    let (code, _, err) = run(pods(&["shop-1"]), json!([]), 1, &["deploy/shop", "-w"]);
    assert!(code == 1 && err.contains("follow one Pod"), "{err}");
}

/// The messages are those of containerd 1.6, and of runc after an API server 1.34 has dropped the volume.
#[test]
fn node_without_image_volumes_is_named() {
    let gate = json!({"name": "api", "command": ["/podgate/bin/podgate", "entrypoint", "--ask", "db http://:80/", "--", "/api"]});
    let runc = "OCI runtime create failed: exec: \"/podgate/bin/podgate\": stat /podgate/bin/podgate: no such file or directory";
    let mkdir = "failed to generate container \"5d15\" spec: failed to generate spec: failed to mkdir \"\": mkdir : no such file or directory";
    for status in [
        json!({"name": "api", "state": {"waiting": {"reason": "CreateContainerError", "message": mkdir}}}),
        json!({"name": "api", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": runc}}}),
    ] {
        let pod = json!({"metadata": {"name": "ordered"}, "spec": {"nodeName": "n", "containers": [{"name": "db"}, gate]},
            "status": {"containerStatuses": [running("db", true), status]}});
        let view = status_json(&pod);
        assert_eq!(
            view["summary"],
            "Pod shop/ordered is starting: api cannot start on node n, which has no image volumes."
        );
        assert!(notes(&view).iter().any(|note| note.ends_with("or set podgate.io/sidecar: always and inject again.")));
    }
}

/// Without a sidecar, the states come from the kubelet's status, and the reason of a wait from the gate's log.
#[test]
fn states_of_a_pod_without_a_sidecar_come_from_the_kubelet() {
    let opened = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--wait"]}});
    let gate = ["/podgate/bin/podgate", "entrypoint", "--ask", "db http://:80/", "--", "/api"];
    let server = FakeApiServer::new(move |request: &Request| {
        if request.path.contains("/log") {
            return Answer::Text(200, "podgate entrypoint: api: waiting for db=Ready (now Started)\n".to_owned());
        }
        let mut waiting = running("api", false);
        waiting["started"] = false.into();
        Answer::Json(
            200,
            json!({"metadata": {"name": "ordered"},
                "spec": {"nodeName": "n", "containers": [
                    {"name": "db", "readinessProbe": {"httpGet": {"port": 80}}},
                    {"name": "api", "command": gate, "startupProbe": opened}]},
                "status": {"phase": "Running", "containerStatuses": [running("db", false), waiting]}}),
        )
    });
    let (code, out, err) = server.run(&["status", "ordered"]);
    assert_eq!((code, err.as_str()), (3, ""), "{out}");
    for expected in [
        "is starting: db holds back api.",
        "db         Started",
        "api        Waiting         running, not ready  db=Ready",
        "needed     db=Ready: db must pass its readinessProbe (httpGet :80/)",
        "- The Pod has no sidecar: its gates ask the containers themselves, and the states come from the kubelet.",
        "- api waits for db=Ready (now Started).\n",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

/// The Pod's manifest was changed after the injection, and applied without the webhook.
#[test]
fn outdated_injection_is_noted() {
    let container = |name: &str, port: u16| json!({"name": name, "image": name, "command": [name], "readinessProbe": {"tcpSocket": {"port": port}}});
    let plain = json!({"metadata": {"name": "ordered", "uid": "u1", "annotations": {"podgate.io/order": "db, api, web"}},
        "spec": {"nodeName": "node-1", "containers": [container("db", 1), container("api", 2), container("web", 3)]}});
    let injected = inject(&plain, &Options::new("podgate"), &KnownFacts::default()).unwrap().value;
    let cases: [(Change, &str); 4] = [
        (|_| (), ""),
        (|pod| pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}}), ""),
        (
            |pod| pod["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"] = json!(5),
            "db.readinessProbe.tcpSocket.port is 1 in the sidecar's list, but 5 in the manifest",
        ),
        (
            |pod| pod["metadata"]["annotations"]["podgate.io/order"] = json!("db, web, api"),
            "api.until is [db] in the sidecar's list, but [db,web] in the manifest",
        ),
    ];
    for (change, expected) in cases {
        let mut pod = injected.clone();
        change(&mut pod);
        let view = status_json(&pod);
        let found: Vec<&str> = notes(&view).into_iter().filter(|note| note.contains("outdated")).collect();
        let note =
            format!("The injected parts are outdated: {expected}. Inject the Pod's manifest again, and apply it.");
        assert_eq!(found, if expected.is_empty() { vec![] } else { vec![note.as_str()] });
    }
}

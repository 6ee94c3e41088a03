//! Tests of `kubectl podgate status` against a fake API server.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

mod held;
mod notes;
mod waits;
mod watching;

use crate::api_server::{Answer, FakeApiServer, Request};
use crate::pods::{
    assert_fields_in_docs, assert_status_screen, chain, docs, held, running, serve, status_json, status_text,
    with_published,
};
use serde_json::{Value, json};
use std::time::SystemTime;

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
    // The page shows a simple probe, and the conditions of a declared order.
    let mut pod = held();
    let list = &mut pod["spec"]["initContainers"][0]["env"][0]["value"];
    let shown = list
        .as_str()
        .unwrap()
        .replace(r#""exec":{"command":["pg_isready","-U","$$(USER)$$$$"]}"#, r#""tcpSocket":{"port":5432}"#);
    *list = json!(shown.replace(r#"["api=Ready"]"#, r#"["db=Ready","api=Ready"]"#));
    let plain = status_text(&pod);
    assert!(ageless(docs()).contains(&ageless(&plain)), "docs/watching.md should contain:\n{plain}");
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

/// Without a sidecar, the states come from the kubelet's status, and the reason of a wait from the gate's log.
#[test]
fn states_of_a_pod_without_a_sidecar_come_from_the_kubelet() {
    let opened = json!({"exec": {"command": ["/podgate/bin/podgate", "opened", "--wait"]}});
    let gate = ["/podgate/bin/podgate", "entrypoint", "--ask", "db http://:80/", "--", "/api"];
    let mut waiting = running("api", false);
    waiting["started"] = false.into();
    let pod = json!({"metadata": {"name": "ordered"},
        "spec": {"nodeName": "n", "containers": [
            {"name": "db", "readinessProbe": {"httpGet": {"port": 80}}},
            {"name": "api", "command": gate, "startupProbe": opened}]},
        "status": {"phase": "Running", "containerStatuses": [running("db", false), waiting]}});
    assert_status_screen("status-without-sidecar", &pod, |pod| {
        let pod = pod.clone();
        FakeApiServer::new(move |request: &Request| match request.path.contains("/log") {
            true => Answer::Text(200, "podgate entrypoint: api: waiting for db=Ready (now Started)\n".to_owned()),
            false => Answer::Json(200, pod.clone()),
        })
    });
}

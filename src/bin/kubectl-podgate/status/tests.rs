//! Tests of the output of `status` for whole Pods.

mod hold;

use super::text::render;
use crate::pod::tests::{chain, view_of, with_published};
use serde_json::{Value, json};

#[test]
fn docs_show_this_output() {
    let written = render(&view_of(&with_published(chain(), "starting", ["Started", "Waiting", "Waiting"])));
    let plain = anstream::adapter::strip_str(&written).to_string();
    let docs = include_str!("../../../../docs/kubectl-podgate.md");
    assert!(docs.contains(&plain), "docs/kubectl-podgate.md should contain:\n{plain}");
    assert!(written.len() > plain.len());
}

#[test]
fn json_has_the_documented_fields() {
    let json =
        serde_json::to_value(view_of(&with_published(chain(), "starting", ["Started", "Waiting", "Waiting"]))).unwrap();
    assert_eq!(
        json["published"],
        json!({"phase": "starting", "sandbox": "3f2a9c1e-4097-1a0c5f3b", "epoch": "e1", "revision": 5,
               "seen": "2026-11-21T14:00:10Z", "seenSecondsAgo": 2})
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
    assert_eq!(db["since"], json!({"at": "2026-11-21T14:00:06.250Z", "secondsAgo": 5, "by": "podgate"}));
    assert_eq!(
        (&db["role"], &db["mode"], &db["kubelet"]["reason"]),
        (&json!("container"), &json!("post-start"), &json!("ContainerCreating"))
    );
    let docs = include_str!("../../../../docs/kubectl-podgate.md");
    for key in keys(&json).split(' ').chain(keys(db).split(' ')).chain(keys(&db["kubelet"]).split(' ')) {
        assert!(docs.contains(&format!("`{key}`")), "docs/kubectl-podgate.md does not name {key}");
    }
}

//! Tests of rejected templates, and of the message and place of each rejection.

use super::corpus::templates;
use super::{check_injection, injected, lines, options};
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{inject, uninject, wants_injection};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

/// Returns a Pod with two ordered containers. `inject` adds a gate to each.
fn pod() -> Value {
    json!({
        "metadata": {"annotations": {"podgate.io/order": "a, b"}},
        "spec": {"containers": [
            {"name": "a", "image": "a", "command": ["/a"], "readinessProbe": {"tcpSocket": {"port": 1}}},
            {"name": "b", "image": "b", "command": ["/b"]},
        ]},
    })
}

fn with(pointer: &str, new: Value) -> Value {
    let mut pod = pod();
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    let parent = pod.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match parent {
        Value::Array(items) => items[last.parse::<usize>().expect("an index")] = new,
        other => other[last.replace("~1", "/")] = new,
    }
    pod
}

fn rejection(template: &Value) -> Vec<Finding> {
    let found = inject(template, &options(), &KnownFacts::default()).expect_err("a rejected template");
    assert!(found.iter().any(|finding| finding.level == Level::Error));
    for finding in &found {
        assert!(
            !finding.message.is_empty() && !finding.message.ends_with('.') && !finding.fix.ends_with('.'),
            "{finding}"
        );
    }
    found
}

#[test]
fn each_rejection_has_a_place_and_a_fix() {
    let labeled = json!({"labels": {"podgate.io/inject": "enabled"}, "annotations": {"podgate.io/ordr": "a, b"}});
    for (pointer, new, rule, place) in [
        ("/metadata", labeled, "unknown-key", "metadata.annotations[\"podgate.io/ordr\"]"),
        (
            "/spec/containers",
            json!([{"name": "podgate"}, {"name": "a", "command": ["/a"]}, {"name": "b", "command": ["/b"]}]),
            "name-taken",
            "spec.containers[0].name",
        ),
        ("/spec/initContainers", json!([{"name": "podgate"}]), "name-taken", "spec.initContainers[0].name"),
        ("/spec/volumes", json!([{"name": "x"}, {"name": "podgate-self"}]), "name-taken", "spec.volumes[1].name"),
        ("/spec/volumes", json!([{"name": "podgate-hold"}]), "name-taken", "spec.volumes[0].name"),
        (
            "/spec/containers/1/env",
            json!([{"name": "X"}, {"name": "PODGATE_HOLD", "value": "x"}]),
            "by-hand",
            "spec.containers[1].env[1]",
        ),
        ("/spec/containers/1/volumeMounts", json!({}), "wrong-type", "spec.containers[1].volumeMounts"),
        (
            "/spec/containers/0/readinessProbe",
            json!({"tcpSocket": {}}),
            "probe-unreadable",
            "spec.containers[0].readinessProbe",
        ),
        (
            "/spec/containers/0/command",
            json!(["/podgate/bin/podgate", "entrypoint", "--", "/a"]),
            "by-hand",
            "spec.containers[0].command",
        ),
        ("/spec/os", json!({"name": "windows"}), "windows", "spec.os.name"),
        ("/spec/containers/0/image", json!("example.com/windows/core:1"), "windows", "spec.containers[0].image"),
        ("/spec/initContainers", json!("x"), "wrong-type", "spec.initContainers"),
        (
            "/metadata/annotations/podgate.io~1injected",
            json!(7),
            "injected-unreadable",
            "metadata.annotations[\"podgate.io/injected\"]",
        ),
        (
            "/metadata/annotations/podgate.io~1injected",
            json!("{}"),
            "injected-unreadable",
            "metadata.annotations[\"podgate.io/injected\"]",
        ),
    ] {
        let template = with(pointer, new);
        let found = rejection(&template);
        let finding =
            found.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("{pointer}: {}", lines(&found)));
        assert_eq!(finding.at.to_string(), place, "{finding}");
        assert!(!finding.fix.is_empty(), "{finding}");
    }
}

#[test]
fn unreadable_probe_is_explained_in_plain_words() {
    for (probe, expected) in [
        (json!({"periodSeconds": 5}), "has no action; write one of exec, httpGet, tcpSocket and grpc"),
        (json!("x"), "has no action; "),
        (
            json!({"exec": {"command": ["x"]}, "periodSeconds": "5s"}),
            "has a periodSeconds that is not a whole number; ",
        ),
        (json!({"exec": {}, "timeoutSeconds": -1}), "has a timeoutSeconds that is not a whole number; "),
        (json!({"tcpSocket": {}}), "has no valid port in tcpSocket; write a port number, or the name of"),
        (json!({"httpGet": {"port": 80, "path": 1}}), "has a field of the wrong type in httpGet; "),
        (json!({"exec": {"command": "x"}}), "has a field of the wrong type in exec; "),
        (json!({"exec": {"command": ["x"], "user": "x"}}), "has exec.user, which podgate does not support; remove it"),
        (json!({"tcpSocket": {"port": 1}, "jitterSeconds": 1}), "has jitterSeconds, which podgate does not support; "),
        (
            json!({"httpGet": {"port": 1, "httpHeaders": [{"name": "a"}, {"name": "b", "valueFrom": {}}]}}),
            "has httpGet.httpHeaders.1.valueFrom, which podgate does not support; ",
        ),
        (json!({"grpc": {"port": 1, "mode": "mTLS"}}), "has grpc.mode.mTLS, which podgate does not support; "),
        (
            json!({"httpGet": {"port": 1, "protocol": "HTTP3"}}),
            "has httpGet.protocol.HTTP3, which podgate does not support",
        ),
    ] {
        let found = rejection(&with("/spec/containers/0/readinessProbe", probe));
        let expected = format!("probe-unreadable: the readinessProbe of a {expected}");
        let shown = format!("{}: {}; {}", found[0].rule, found[0].message, found[0].fix);
        assert!(shown.starts_with(&expected), "{shown}");
    }
}

#[test]
fn spec_of_the_wrong_type_is_rejected() {
    for spec in [
        json!(null),
        json!(3),
        json!({}),
        json!({"containers": 3}),
        json!({"containers": []}),
        json!({"containers": [7]}),
    ] {
        rejection(&with("/spec", spec));
    }
}

/// A variable may have the name of one of podgate's volumes.
#[test]
fn variables_with_the_name_of_a_volume_belong_to_the_user() {
    let pod = with(
        "/spec/containers/1/env",
        json!([{"name": "podgate-board", "value": "1"}, {"name": "podgate-self", "valueFrom": {}}]),
    );
    check_injection(&pod, &options(), &KnownFacts::default()).expect("an injected Pod");
}

#[test]
fn windows_pods_are_rejected() {
    let place = |spec: Value| {
        let mut pod = with("/spec/hostname", json!("x"));
        pod["spec"].as_object_mut().unwrap().append(&mut spec.as_object().unwrap().clone());
        let found = inject(&pod, &options(), &KnownFacts::default()).err().unwrap_or_default();
        found.iter().find(|finding| finding.rule == "windows").map(|finding| finding.at.to_string())
    };
    for (spec, at) in [
        (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), "spec.nodeSelector[\"kubernetes.io/os\"]"),
        (json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}), "spec.nodeSelector[\"beta.kubernetes.io/os\"]"),
    ] {
        assert_eq!(place(spec.clone()).as_deref(), Some(at), "{spec}");
    }
    assert_eq!(place(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})), None);
}

/// Changes an injected template. Returns the places of the findings, which must be the same for `uninject` and
/// `inject`.
fn changed(by: impl Fn(&mut Value)) -> Vec<String> {
    let mut template = templates("hooks-exec.yaml").remove(0);
    template["metadata"]["annotations"]["mode.podgate.io/app"] = json!("entrypoint");
    template["spec"]["containers"][1]["command"] = json!(["/app"]);
    let mut done = injected(&template).value;
    by(&mut done);
    let found = uninject(&done).expect_err("uninject cannot restore the original");
    assert_eq!(
        inject(&done, &options(), &KnownFacts::default()).expect_err("inject cannot update the template either"),
        found
    );
    assert!(found.iter().all(|finding| finding.rule == "injected-changed" && finding.level == Level::Error));
    found.iter().map(|finding| finding.at.to_string()).collect()
}

#[test]
fn manual_changes_that_prevent_uninject_are_reported() {
    let places = changed(|done| done["spec"]["containers"][1]["command"] = json!(["/other"]));
    assert_eq!(places, ["spec.containers[1].command"]);
    let places =
        changed(|done| done["spec"]["containers"][0]["lifecycle"]["preStop"] = json!({"exec": {"command": ["x"]}}));
    assert_eq!(places, ["spec.containers[0].lifecycle.preStop"]);
    let places = changed(|done| done["spec"]["containers"][0]["lifecycle"] = Value::Null);
    assert_eq!(places, ["spec.containers[0].lifecycle.preStop"], "a probe proves that db is Ready, so it has no hook");
    let held = json!({"metadata": {"annotations": {"podgate.io/order": "a, b"}}, "spec": {"containers": [
        {"name": "a", "image": "a"}, {"name": "b", "image": "b", "env": [{"name": "X", "value": "1"}]}]}});
    // A kubelet of Kubernetes 1.38 or later would skip the optional variable while the gate is closed.
    let optional = json!({"volumeName": "podgate-hold", "path": "keys/b", "key": "OPEN", "optional": true});
    let optional = json!([{"name": "PODGATE_HOLD", "valueFrom": {"fileKeyRef": optional}}]);
    for change in [json!([]), json!([{"name": "PODGATE_HOLD", "value": "yes"}]), optional] {
        let mut done = injected(&held).value;
        done["spec"]["containers"][1]["env"] = change;
        let found = uninject(&done).expect_err("uninject cannot restore the original");
        assert_eq!(
            found[0].to_string().split(';').next().unwrap_or_default(),
            "spec.containers[1].env: podgate's variable in the env of b is missing or was changed"
        );
    }
    let places = changed(|done| done["spec"]["initContainers"] = json!([]));
    assert_eq!(places, ["metadata.annotations[\"podgate.io/injected\"]"]);
    let places = changed(|done| done["spec"]["initContainers"][0]["env"] = json!([]));
    assert_eq!(places, ["spec.initContainers[0]"]);
}

#[test]
fn users_fields_may_change_after_the_injection() {
    let template = pod();
    let mut done = injected(&template).value;
    let mut expected = template;
    for one in [&mut done, &mut expected] {
        one["spec"]["containers"][1]["args"] = json!(["--new"]);
        one["spec"]["containers"][1]["env"] = json!([{"name": "X", "value": "1"}]);
        one["spec"]["containers"][0]["image"] = json!("a:2");
        one["metadata"]["labels"] = json!({"x": "y"});
    }
    let words = done["spec"]["containers"][1]["command"].as_array_mut().expect("a command");
    words.push(json!("-v"));
    expected["spec"]["containers"][1]["command"] = json!(["/b", "-v"]);
    assert_eq!(uninject(&done).expect("the injection can be undone").value, expected);
}

#[test]
fn finding_places_match_the_injected_template() {
    let mut done = injected(&pod()).value;
    done["spec"]["containers"][1]["readinessProbe"] = json!({"tcpSocket": {}});
    let found = rejection(&done);
    assert!(
        found.iter().any(|finding| finding.at.to_string() == "spec.containers[1].readinessProbe"),
        "{}",
        lines(&found)
    );
}

#[test]
fn template_without_a_declaration_stays_unchanged() {
    let with = |metadata: Value| json!({"metadata": metadata, "spec": {"containers": [{"name": "a"}]}});
    for (metadata, declared) in [
        (json!({}), false),
        (json!({"labels": {"podgate.io/inject": "enabled"}}), true),
        (json!({"labels": {"podgate.io/inject": "disabled"}, "annotations": {"podgate.io/order": "a"}}), false),
        (json!({"annotations": {"podgate.io/order": "a"}}), true),
        (json!({"annotations": {"after.podgate.io/a": "b"}}), true),
        (json!({"annotations": {"podgate.io/timeout": "5m"}}), false),
        (json!({"annotations": 7, "labels": []}), false),
    ] {
        assert_eq!(wants_injection(&with(metadata.clone())), declared, "{metadata}");
    }
    // The label without an order gives a finding.
    for (metadata, is_marked) in [(json!({}), false), (json!({"labels": {"podgate.io/inject": "enabled"}}), true)] {
        let template = with(metadata);
        let done = inject(&template, &options(), &KnownFacts::default()).unwrap();
        assert_eq!((done.value, done.edits, !done.findings.is_empty()), (template, vec![], is_marked));
    }
}

#[test]
fn users_hooks_are_kept_or_rejected() {
    let with_hook = |which: &str, handler: &Value| {
        let mut pod = with("/spec/containers/0/lifecycle", json!({which: handler}));
        pod["metadata"]["annotations"]["podgate.io/mode"] = json!("post-start");
        pod["metadata"]["annotations"]["podgate.io/stop-order"] = json!("reverse");
        pod
    };
    let odd_words = json!({"exec": {"command": ["sh", "-c", "echo \"$(X)\" -- --then \\"]}});
    for handler in [odd_words, json!({"sleep": {"seconds": 7}})] {
        for which in ["postStart", "preStop"] {
            let done = check_injection(&with_hook(which, &handler), &options(), &KnownFacts::default());
            assert!(done.is_some_and(|done| !done.edits.is_empty()), "{which}: {handler}");
        }
    }
    let rule = |which: &str, handler: &Value| {
        let found = rejection(&with_hook(which, handler));
        found.iter().find(|finding| finding.level == Level::Error).expect("an error").rule
    };
    for handler in [json!({"sleep": {}}), json!({"tcpSocket": {"port": 1}}), json!({})] {
        assert_eq!(rule("postStart", &handler), "own-post-start", "{handler}");
    }
    for get in [
        json!({"port": "web"}),
        json!({"port": 0}),
        json!({"port": 8080, "scheme": "HTTPS"}),
        json!({"port": 8080, "host": "a b"}),
        json!({"port": 8080, "httpHeaders": [{"name": "a b", "value": ""}]}),
    ] {
        assert_eq!(rule("postStart", &json!({"httpGet": get})), "own-post-start", "{get}");
        assert_eq!(rule("preStop", &json!({"httpGet": get})), "own-pre-stop", "{get}");
    }
    let quit = with_hook("preStop", &json!({"httpGet": {"port": 8080, "path": "/quit"}}));
    let done = check_injection(&quit, &options(), &KnownFacts::default()).expect("an injected Pod");
    let words = done.value["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"].to_string();
    assert!(words.contains(r#"[\"/podgate/bin/podgate\",\"check\",\"--hook\",\"http://:8080/quit\"]"#), "{words}");
    assert!(!words.contains("--then-timeout") && done.findings.len() == 1, "{words} {}", lines(&done.findings));
}

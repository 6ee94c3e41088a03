use base64::prelude::{BASE64_STANDARD, Engine};
use podgate::order::admission::{Answer, JSON_VALUES_MAX, Outcome, answer};
use podgate::order::assigned::AssignedOrders;
use podgate::order::edit::{Edit, Op, Place};
use podgate::order::finding::Finding;
use podgate::order::inject::{Injected, Options};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "shop-", "labels": {"podgate.io/inject": "enabled"}}, "spec": {"containers": [{"name": "a"}]}})
}

fn review(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE", "namespace": "shop",
            "userInfo": {"username": "u"}, "object": object, "oldObject": null, "dryRun": true, "options": {"kind": "CreateOptions"},
        }
    })
}

fn edit() -> Edit {
    Edit { at: Place::root().to("spec").to("containers").to(0).to("command"), op: Op::Set(json!(["gate"])) }
}

/// Answers `review` with an injector that returns `edit()` and `findings`.
fn answer_review(review: &Value, findings: &[Finding]) -> Answer {
    let inject = |_: &str, pod: &Value| {
        Ok(Injected { value: pod.clone(), edits: vec![edit()], findings: findings.to_vec(), ..Injected::default() })
    };
    answer(review.to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap()
}

/// Returns the error for a body that must not reach the injector.
fn review_error(body: &[u8]) -> String {
    let never = |_: &str, _: &Value| -> Result<Injected, Vec<Finding>> { panic!("injected") };
    answer(body, &never, &AssignedOrders::default()).unwrap_err().to_string()
}

#[test]
fn warnings_are_short_single_lines() {
    let warning = |what: &str| Finding::warning("rule", Place::root().to("spec"), what);
    let notes = [Finding::note("rule", Place::root(), "a note"), warning("one\ntwo"), warning(&"ü".repeat(300))];
    let answer = answer_review(&review(&pod()), &notes);
    let warnings = answer.body["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2);
    assert_eq!(warnings[0], "podgate: spec: one two");
    let long = warnings[1].as_str().unwrap();
    assert!(long.ends_with("ü…") && (250..=256).contains(&long.len()), "{}", long.len());
    let many = vec![warning("x"); 30];
    let answer = answer_review(&review(&pod()), &many);
    let warnings = answer.body["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 13);
    assert_eq!(warnings[12], "podgate: findings not shown: 18; run `kubectl podgate check` to see them");
}

#[test]
fn other_requests_pass_unchanged() {
    let with = |path: &str, value: Value| {
        let mut review = review(&pod());
        *review.pointer_mut(path).unwrap() = value;
        review
    };
    let mut disabled = pod();
    disabled["metadata"]["labels"]["podgate.io/inject"] = "disabled".into();
    let mut unlabeled = pod();
    unlabeled["metadata"]["labels"] = json!({});
    let mut mirror = pod();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let subresource = |name: &str| {
        let mut review = review(&pod());
        review["request"]["subResource"] = name.into();
        review
    };
    for review in [
        with("/request/kind/kind", json!("Deployment")),
        with("/request/kind/group", json!("example.com")),
        with("/request/kind", json!(null)),
        with("/request/operation", json!("UPDATE")),
        with("/request/object", json!(null)),
        with("/request/object", json!("a pod")),
        subresource("ephemeralcontainers"),
        subresource("dynamic"),
        review(&disabled),
        review(&unlabeled),
        review(&mirror),
    ] {
        let answer = answer_review(&review, &[]);
        assert_eq!(answer.body["response"], json!({"uid": "705ab4f5", "allowed": true}), "{review}");
        assert_eq!(answer.outcome, Outcome::Passed);
    }
}

#[test]
fn workload_is_never_denied_or_changed() {
    let reviewed = |kind: [&str; 2], operation: &str, template: &Value, findings: Option<&[Finding]>| {
        let object = json!({"apiVersion": format!("{}/v1", kind[0]), "kind": kind[1], "metadata": {"name": "shop"},
            "spec": {"template": template}});
        let mut review = review(&object);
        review["request"]["kind"] = json!({"group": kind[0], "version": "v1", "kind": kind[1]});
        review["request"]["operation"] = operation.into();
        let inject = |_: &str, template: &Value| match findings {
            Some(errors) => Err(errors.to_vec()),
            None => Ok(Injected { value: template.clone(), edits: vec![edit()], ..Injected::default() }),
        };
        answer(review.to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap()
    };
    let (ordered, error) = (pod(), Finding::error("rule", Place::root().to("spec"), "wrong"));
    for kind in [["apps", "Deployment"], ["apps", "StatefulSet"], ["apps", "DaemonSet"], ["batch", "Job"]] {
        for operation in ["CREATE", "UPDATE"] {
            let wrong = reviewed(kind, operation, &ordered, Some(std::slice::from_ref(&error)));
            assert_eq!((wrong.outcome, wrong.message.as_str()), (Outcome::Checked, ""));
            let (response, warning) = (&wrong.body["response"], "podgate: spec.template.spec: wrong");
            assert_eq!((&response["allowed"], &response["warnings"]), (&json!(true), &json!([warning])));
            let valid = reviewed(kind, operation, &ordered, None).body["response"].clone();
            assert!(valid["allowed"] == true && valid["patch"].is_null() && valid["warnings"].is_null(), "{valid}");
        }
    }
    let deployment = ["apps", "Deployment"];
    let mut disabled = pod();
    disabled["metadata"]["labels"]["podgate.io/inject"] = "disabled".into();
    for (kind, operation, template) in [
        (deployment, "DELETE", &ordered),
        (["example.com", "Deployment"], "CREATE", &ordered),
        (deployment, "CREATE", &disabled),
        (deployment, "CREATE", &json!({})),
    ] {
        let passed = reviewed(kind, operation, template, Some(std::slice::from_ref(&error)));
        assert_eq!(passed.body["response"], json!({"uid": "705ab4f5", "allowed": true}), "{kind:?}, {operation}");
    }
    let typo =
        json!({"metadata": {"annotations": {"podgate.io/ordr": "a, b"}}, "spec": {"containers": [{"name": "a"}]}});
    let warned = reviewed(deployment, "CREATE", &typo, None);
    let warning = warned.body["response"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("spec.template.metadata") && warning.contains("did you mean podgate.io/order"),
        "{warning}"
    );
}

#[test]
fn pod_with_podgate_keys_but_no_order_is_denied_or_warned() {
    let inject = |_: &str, _: &Value| -> Result<Injected, Vec<Finding>> { panic!("injected") };
    let answer_with = |annotations: Value, label: &str| {
        let mut pod = pod();
        pod["metadata"]["annotations"] = annotations;
        pod["metadata"]["labels"] = json!({"podgate.io/inject": label});
        answer(review(&pod).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap()
    };
    let typo = json!({"podgate.io/ordr": "a, b"});
    let mut pod = pod();
    pod["metadata"] = json!({"annotations": typo});
    let denied = answer(review(&pod).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap();
    assert_eq!(denied.outcome, Outcome::Refused);
    assert!(denied.message.contains("\"podgate.io/ordr\"; did you mean podgate.io/order?"), "{}", denied.message);
    pod["metadata"] = json!({"annotations": {"podgate.io/timeout": "2m"}});
    let warned = answer(review(&pod).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap();
    let warning = warned.body["response"]["warnings"][0].as_str().unwrap();
    assert!(warned.outcome == Outcome::Passed && warning.contains("podgate.io/timeout has no effect"), "{warning}");
    assert_eq!(answer_with(typo, "disabled").body["response"], json!({"uid": "705ab4f5", "allowed": true}));
}

/// The API server sends a Pod with such a key to the webhook even if the Pod declares no order.
#[test]
fn pod_with_a_near_miss_is_denied() {
    let inject =
        |_: &str, pod: &Value| podgate::order::inject::inject(pod, &Options::new("podgate"), &KnownFacts::default());
    for order in [json!({"podgate.io/order": "a, b"}), json!({})] {
        for (field, key) in
            [("annotations", "podgate.com/order"), ("annotations", "pogate.io/order"), ("labels", "podgate/order")]
        {
            let mut pod = copied_pod(order.clone());
            pod["metadata"][field][key] = "0-0-0".into();
            let denied = answer(review(&pod).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap();
            assert_eq!(denied.outcome, Outcome::Refused, "{pod}");
            assert!(denied.message.contains(key) && denied.message.contains("did you mean podgate.io/order?"));
        }
    }
}

/// Returns the Pod after the patch in `answer`.
fn patched(pod: &Value, answer: &Answer) -> Value {
    let patch = BASE64_STANDARD.decode(answer.body["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

fn copied_pod(annotations: Value) -> Value {
    let container = |name: &str| json!({"name": name, "image": "x", "command": [name]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop", "annotations": annotations},
        "spec": {"containers": [container("a"), container("b")]}})
}

/// A tool that copies Pods also copies the annotations that podgate has written into the running Pod.
#[test]
fn states_of_another_pod_are_removed() {
    let options = Options { is_from_api: true, ..Options::new("podgate") };
    let inject = |_: &str, pod: &Value| podgate::order::inject::inject(pod, &options, &KnownFacts::default());
    let plain = copied_pod(json!({"podgate.io/order": "a=Started, b"}));
    let injected = inject("", &plain).unwrap().value;
    for before in [&plain, &injected] {
        let mut copy = before.clone();
        for key in ["status.podgate.io/a", "sandbox.podgate.io/id", "override.podgate.io/b", "example.com/x"] {
            copy["metadata"]["annotations"][key] = "Ready".into();
        }
        copy["metadata"]["annotations"]["podgate.io/unknown-containers"] = "x".into();
        let answer = answer(review(&copy).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap();
        assert_eq!(answer.outcome, Outcome::Injected, "{}", answer.message);
        assert_eq!(answer.body["response"]["warnings"], Value::Null);
        let mut expected = injected.clone();
        expected["metadata"]["annotations"]["example.com/x"] = "Ready".into();
        assert_eq!(patched(&copy, &answer), expected);
    }
    // Without an order, the states have no effect.
    let unordered = copied_pod(json!({"status.podgate.io/a": "Ready"}));
    let passed = answer(review(&unordered).to_string().as_bytes(), &inject, &AssignedOrders::default()).unwrap();
    let warning = passed.body["response"]["warnings"][0].as_str().unwrap();
    assert!(passed.outcome == Outcome::Passed && warning.contains("podgate ignores status.podgate.io/a"), "{warning}");
}

#[test]
fn invalid_review_is_an_error() {
    let mut no_uid = review(&pod());
    no_uid["request"]["uid"] = "".into();
    let mut long_uid = review(&pod());
    long_uid["request"]["uid"] = "x".repeat(257).into();
    let mut beta = review(&pod());
    beta["apiVersion"] = "admission.k8s.io/v1beta1".into();
    let mut answered = review(&pod());
    answered.as_object_mut().unwrap().remove("request");
    for (body, expected) in [
        (String::new(), "invalid JSON at line 1, column 0"),
        ("<html>".to_owned(), "invalid JSON at line 1, column 1"),
        ("[]".to_owned(), "not an AdmissionReview"),
        ("{}".to_owned(), "kind \"\" of \"\""),
        ("{\"kind\":3}".to_owned(), "a field has the wrong type at line 1, column 9"),
        ("[".repeat(5000), "not an AdmissionReview"),
        ("[".repeat(JSON_VALUES_MAX + 1), "more than 60000 values"),
        (format!("{{\"a\":[{}0]}}", "0,".repeat(JSON_VALUES_MAX)), "more than 60000 values"),
        (no_uid.to_string(), "1 to 256 bytes"),
        (long_uid.to_string(), "1 to 256 bytes"),
        (beta.to_string(), "v1beta1"),
        (answered.to_string(), "request is missing"),
    ] {
        let error = review_error(body.as_bytes());
        assert!(error.contains(expected), "{error}");
    }
    assert!(review_error(b"{\"kind\": \"\xff\"}").contains("not an AdmissionReview"));
}

#[test]
fn values_in_strings_do_not_count() {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({"x": format!("\"\\{}", "[,{".repeat(JSON_VALUES_MAX))});
    assert_eq!(answer_review(&review(&pod), &[]).outcome, Outcome::Injected);
}

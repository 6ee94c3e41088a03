//! Tests of responses to the API server.

use crate::client::{pod, review, workload_review};
use crate::program::{Files, Webhook};
use podgate::order::declare::keys;
use serde_json::{Value, json};

/// Applies the response's patch to `object`, as the API server does.
pub(crate) fn patched(object: &Value, response: &Value) -> Value {
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

#[test]
fn pod_is_injected_only_once() {
    let files = Files::new();
    let flags = ["--image=registry.example/podgate:1", "--image-pull-policy=Never", "--sidecar-resources=limits.cpu=1"];
    let webhook = Webhook::with_files(&files, &[&flags[..], &["--sidecar-settings=log=debug"]].concat());
    let client = webhook.client(&files.ca);
    let pod = pod("db, api");
    let response = client.review(&review("one", &pod));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("one"), &json!(true)));
    let injected = patched(&pod, &response);
    let sidecar = &injected["spec"]["initContainers"][0];
    assert_eq!(sidecar["image"], "registry.example/podgate:1");
    assert_eq!(sidecar["imagePullPolicy"], "Never");
    assert_eq!(sidecar["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(sidecar["args"], json!(["--publish", "none", "--log-level", "debug"]));
    assert!(injected["metadata"]["annotations"]["podgate.io/injected"].is_string());

    // The API server sends the Pod again after another webhook has changed the Pod (reinvocationPolicy: IfNeeded).
    let again = client.review(&review("two", &injected));
    assert_eq!((&again["uid"], &again["allowed"]), (&json!("two"), &json!(true)));
    assert!(again.get("patch").is_none() && again.get("patchType").is_none(), "{again}");
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"injected\"}"), 1.0);
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"unchanged\"}"), 1.0);
    let line = webhook.logged("injected");
    assert_eq!((&line["namespace"], &line["name"]), (&json!("shop"), &json!("shop")));
}

#[test]
fn pods_of_listed_namespaces_get_a_token_and_keep_it() {
    let files = Files::new();
    let flags = [&[][..], &["--namespaces=bank,shop"], &["--namespaces=bank"], &["--namespaces=*"]];
    let webhooks = flags.map(|flags| Webhook::with_files(&files, flags));
    let mut own = pod("db, api");
    own["metadata"]["annotations"]["podgate.io/publish"] = "api".into();
    for (webhook, is_listed) in webhooks.iter().zip([false, true, false, true]) {
        for (pod, has_token) in [(&pod("db, api"), is_listed), (&own, true)] {
            let injected = patched(pod, &webhook.client(&files.ca).review(&review("one", pod)));
            assert_eq!(injected["spec"]["volumes"].to_string().contains("serviceAccountToken"), has_token);
            assert_eq!(injected["spec"]["initContainers"][0]["args"].is_null(), has_token);
            for other in &webhooks {
                let again = other.client(&files.ca).review(&review("two", &injected));
                assert!(again["allowed"] == true && again.get("patch").is_none(), "{again}");
            }
        }
    }
}

#[test]
fn dry_run_gets_the_same_response() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let mut dry = review("one", &pod("db, api"));
    let real = client.review(&dry);
    dry["request"]["dryRun"] = true.into();
    assert_eq!(client.review(&dry), real);
}

#[test]
fn invalid_annotation_is_denied_with_its_path() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let response = webhook.client(&files.ca).review(&review("one", &pod("db, api=nosuch")));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("one"), &json!(false)));
    assert_eq!(response["status"]["code"], 422);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("metadata.annotations[\"podgate.io/order\"]") && message.contains("nosuch"), "{message}");
    assert!(response.get("patch").is_none());
    assert_eq!(webhook.logged("refused")["why"], message);
}

#[test]
fn decision_about_unknown_containers_is_left_to_a_later_call() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let mut first = pod("vault-agent, db, apii");
    first["metadata"]["annotations"]["timeout.podgate.io/apii"] = json!("1m");
    let response = client.review(&review("one", &first));
    assert_eq!(response["allowed"], true, "{response}");
    let marked = patched(&first, &response);
    let mut annotations = marked["metadata"]["annotations"].clone();
    let message = annotations.as_object_mut().unwrap().remove(keys::UNKNOWN_CONTAINER_FINDINGS).unwrap();
    let message = message.as_str().unwrap();
    assert_eq!(
        message,
        "metadata.annotations[\"podgate.io/order\"]: there is no container vault-agent; use one of db, api, \
         or write vault-agent? if a webhook adds it; \
         metadata.annotations[\"podgate.io/order\"]: there is no container apii; did you mean api?; \
         metadata.annotations[\"timeout.podgate.io/apii\"]: timeout.podgate.io/apii: there is no container apii; did you mean api?"
    );
    assert_eq!((&annotations, &marked["spec"]), (&first["metadata"]["annotations"], &first["spec"]), "not injected");
    assert_eq!(webhook.logged("deferred: a later webhook may add the containers")["why"], message);
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"deferred\"}"), 1.0);

    // The API server calls podgate again after a later webhook. The names are still unknown.
    let again = client.review(&review("two", &marked));
    assert!(again["allowed"] == true && again.get("patch").is_none(), "{again}");
    // The later webhook has added some of the containers, then all.
    let agent = json!({"name": "vault-agent", "image": "vault", "command": ["vault"], "readinessProbe": {"tcpSocket": {"port": 8200}}});
    let add = |pod: &Value, container: &Value| {
        let mut pod = pod.clone();
        pod["spec"]["containers"].as_array_mut().unwrap().push(container.clone());
        pod
    };
    let some = add(&marked, &agent);
    let some = patched(&some, &client.review(&review("three", &some)));
    let left = some["metadata"]["annotations"][keys::UNKNOWN_CONTAINER_FINDINGS].as_str().unwrap();
    assert!(!left.contains("vault-agent") && left.contains("apii"), "{left}");
    let last = json!({"name": "apii", "image": "x", "command": ["x"]});
    let whole = add(&some, &last);
    let done = patched(&whole, &client.review(&review("four", &whole)));
    let at_once = add(&add(&first, &agent), &last);
    assert_eq!(done, patched(&at_once, &client.review(&review("five", &at_once))), "as if all were there at once");
    assert!(done["metadata"]["annotations"][keys::INJECTION_RECORD].is_string());
}

/// A later webhook may add an unknown container, but cannot fix other errors. Podgate denies a Pod with other errors
/// at once.
#[test]
fn other_errors_are_denied_at_once() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let mut pod = pod("db, nosuch");
    pod["metadata"]["annotations"]["podgate.io/ordr"] = json!("db, api");
    let response = client.review(&review("one", &pod));
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        response["allowed"] == false && message.contains("nosuch") && message.contains("podgate.io/ordr"),
        "{message}"
    );
}

#[test]
fn optional_container_is_decided_at_the_last_call() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let bare = pod("db, proxy?, api");
    let first = patched(&bare, &client.review(&review("one", &bare)));
    let without = pod("db, api");
    let without = patched(&without, &client.review(&review("two", &without)));
    assert_eq!(first["spec"], without["spec"], "without the proxy, the order is db, api");
    // A mesh puts its native sidecar first.
    let proxy = json!({"name": "proxy", "image": "p", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 15021}}});
    let add = |pod: &Value| {
        let mut pod = pod.clone();
        let init = &mut pod["spec"]["initContainers"];
        *init = json!([vec![proxy.clone()], init.as_array().cloned().unwrap_or_default()].concat());
        pod
    };
    let (meshed, at_once) = (add(&first), add(&bare));
    let response = client.review(&review("three", &at_once));
    assert_eq!(response["allowed"], false, "proxy cannot wait for db: {response}");
    assert_eq!(client.review(&review("four", &meshed))["allowed"], false);

    let bare = pod("proxy?, db, api");
    let first = patched(&bare, &client.review(&review("five", &bare)));
    let (meshed, at_once) = (add(&first), add(&bare));
    let done = patched(&meshed, &client.review(&review("six", &meshed)));
    assert_eq!(done, patched(&at_once, &client.review(&review("seven", &at_once))));
    assert_eq!(done["spec"]["containers"][0]["command"][5], "proxy", "{done}");
}

#[test]
fn other_objects_are_allowed_unchanged() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let mut plain = pod("db, api");
    plain["metadata"] = json!({"name": "plain"});
    let mut scale = review("one", &pod("db, api"));
    scale["request"]["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    for review in [review("one", &plain), scale] {
        assert_eq!(client.review(&review), json!({"uid": "one", "allowed": true}));
    }
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"passed\"}"), 2.0);
}

#[test]
fn workload_is_only_warned_about() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    for (kind, at) in [("Deployment", "spec.template"), ("CronJob", "spec.jobTemplate.spec.template")] {
        let response = client.review(&workload_review(kind, &pod("db, apii")));
        let what = "metadata.annotations[\"podgate.io/order\"]: there is no container apii; did you mean api?";
        let expected = json!({"uid": "one", "allowed": true, "auditAnnotations": {"outcome": "checked"},
            "warnings": [format!("podgate: {at}.{what}")]});
        assert_eq!(response, expected);
        let valid = client.review(&workload_review(kind, &pod("db, api")));
        assert_eq!(valid, json!({"uid": "one", "allowed": true, "auditAnnotations": {"outcome": "checked"}}));
    }
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"checked\"}"), 4.0);
}

/// `check` reports a deadline of the workload, which the Pod does not have.
#[test]
fn workload_gets_the_findings_of_check() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let mut review = workload_review("Deployment", &pod("db, api"));
    review["request"]["object"]["spec"]["progressDeadlineSeconds"] = json!(2);
    let response = webhook.client(&files.ca).review(&review);
    assert!(response["warnings"][0].as_str().unwrap().contains("progressDeadlineSeconds"), "{response}");
}

#[test]
fn pod_that_cannot_start_is_injected_with_a_warning() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    for (pointer, value, warning) in [
        ("/spec/containers/0/readinessProbe", Value::Null, "api waits until db is Ready, but db has no readinessProbe"),
        ("/spec/containers/0/readinessProbe/tcpSocket/port", json!("pg"), "db has no port named pg"),
        ("/spec/containers/1/command/0", json!("api -x"), "api has no program with this name"),
    ] {
        let mut faulty = pod("db, api");
        *faulty.pointer_mut(pointer).unwrap() = value;
        let response = client.review(&review("one", &faulty));
        assert!(response["allowed"] == true && response["patch"].is_string(), "{response}");
        assert!(response["warnings"].to_string().contains(warning), "{response}");
    }
    assert!(client.review(&review("two", &pod("db, api"))).get("warnings").is_none());
}

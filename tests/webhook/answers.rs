//! Tests of responses to the API server.

use crate::client::{pod, review};
use crate::program::{Files, Webhook};
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
    let webhook = Webhook::with_files(&files, &flags);
    let client = webhook.client(&files.ca);
    let pod = pod("db, api");
    let response = client.review(&review("one", &pod));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("one"), &json!(true)));
    let injected = patched(&pod, &response);
    let sidecar = &injected["spec"]["initContainers"][0];
    assert_eq!(sidecar["image"], "registry.example/podgate:1");
    assert_eq!(sidecar["imagePullPolicy"], "Never");
    assert_eq!(sidecar["resources"], json!({"limits": {"cpu": "1"}}));
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
    let response = webhook.client(&files.ca).review(&review("one", &pod("db, nosuch")));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("one"), &json!(false)));
    assert_eq!(response["status"]["code"], 422);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("metadata.annotations[\"podgate.io/order\"]") && message.contains("nosuch"), "{message}");
    assert!(response.get("patch").is_none());
    assert_eq!(webhook.logged("refused")["why"], message);
}

/// `inject --resolve-images --annotate-only` writes both annotations.
#[test]
fn webhook_warns_if_the_command_is_from_another_image() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let recorded = "example.com:5000/api:1@sha256:aa";
    for (image, is_same) in [
        (recorded, true),
        ("example.com:5000/api:1", true),
        ("mirror/api@sha256:aa", true),
        ("example.com:5000/api:2", false),
        ("example.com:5000/api:1@sha256:bb", false),
        ("example.com:5000/api", false),
    ] {
        let mut pod = pod("db, api");
        let api =
            pod["spec"]["containers"].as_array_mut().unwrap().iter_mut().find(|own| own["name"] == "api").unwrap();
        api["image"] = image.into();
        api.as_object_mut().unwrap().remove("command");
        pod["metadata"]["annotations"]["command.podgate.io/api"] = "[\"/api\"]".into();
        pod["metadata"]["annotations"]["image.podgate.io/api"] = recorded.into();
        let response = client.review(&review("one", &pod));
        assert_eq!(response["allowed"], true, "{response}");
        let warned = response["warnings"].to_string().contains("was read from example.com:5000/api:1@sha256:aa");
        assert_eq!(warned, !is_same, "{image}: {response}");
    }
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

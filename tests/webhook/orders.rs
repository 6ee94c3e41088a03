//! Tests of `--orders`: the file with the orders of Pods that declare none.

use crate::answers::patched;
use crate::client::{pod, review};
use crate::program::{Files, Webhook, eventually};
use serde_json::{Value, json};

const FILE: &str = "\
orders:
- namespaces: [shop*]
  podLabels: {app: keycloak}
  annotations: {podgate.io/order: \"db, api\"}
";

fn start(files: &Files) -> Webhook {
    Webhook::with_files(files, &["--orders", files.path("orders.yaml").to_str().unwrap()])
}

/// Returns a Pod without a key of podgate.
fn undeclared() -> Value {
    let mut pod = pod("");
    pod["metadata"] = json!({"name": "keycloak-0", "labels": {"app": "keycloak"}});
    pod
}

fn ask(webhook: &Webhook, files: &Files, pod: &Value) -> Value {
    webhook.client(&files.ca).review(&review("one", pod))
}

fn outcomes(webhook: &Webhook, outcome: &str) -> f64 {
    webhook.metric(&format!("podgate_webhook_requests_total{{outcome=\"{outcome}\"}}"))
}

#[test]
fn matching_pod_gets_its_order_once() {
    let files = Files::new();
    files.put("orders.yaml", FILE.as_bytes());
    let webhook = start(&files);
    webhook.logged("read the file of --orders");
    let response = ask(&webhook, &files, &undeclared());
    let injected = patched(&undeclared(), &response);
    let mut declared = undeclared();
    declared["metadata"]["annotations"] = json!({"podgate.io/order": "db, api"});
    let expected = patched(&declared, &ask(&webhook, &files, &declared));
    assert_eq!(injected, expected, "as if the Pod had declared the order");
    assert!(response.get("warnings").is_none(), "{response}");
    let again = ask(&webhook, &files, &injected);
    assert!(again["allowed"] == true && again.get("patch").is_none(), "{again}");
    assert_eq!((outcomes(&webhook, "injected"), outcomes(&webhook, "unchanged")), (2.0, 1.0));
    files.put("orders.yaml", FILE.replace("db, api", "proxy?, api").as_bytes());
    let no_effect = || Some(ask(&webhook, &files, &undeclared())).filter(|response| response.get("patch").is_none());
    let response = eventually("the order has no effect without the proxy", no_effect);
    assert_eq!(response["auditAnnotations"]["outcome"], "unchanged");
}

#[test]
fn other_pods_are_answered_as_without_the_file() {
    let files = Files::new();
    files.put("orders.yaml", FILE.as_bytes());
    let (webhook, without) = (start(&files), Webhook::with_files(&files, &[]));
    let change = |path: &str, value: Value| {
        let mut pod = undeclared();
        pod["metadata"]["annotations"] = json!({});
        let (parent, key) = path.rsplit_once(' ').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
        pod
    };
    for pod in [
        change("/metadata/labels app", json!("other")),
        change("/metadata/labels podgate.io/inject", json!("disabled")),
        change("/metadata/annotations podgate.io/order", json!("api, db")),
        change("/metadata/annotations podgate.io/order", json!("db, nosuch")),
        change("/metadata/annotations podgate.io/order", json!("db, api=nosuch")),
        change("/metadata/annotations podgate.io/ordr", json!("db, api")),
        change("/metadata/annotations podgate.io/timeout", json!("1m")),
        change("/metadata/annotations kubernetes.io/config.mirror", json!("x")),
    ] {
        assert_eq!(ask(&webhook, &files, &pod), ask(&without, &files, &pod), "{pod}");
    }
    let mut review = review("one", &undeclared());
    review["request"]["namespace"] = "bank".into();
    assert_eq!(webhook.client(&files.ca).review(&review), json!({"uid": "one", "allowed": true}));
}

#[test]
fn order_that_does_not_fit_never_denies_the_pod() {
    let files = Files::new();
    files.put("orders.yaml", FILE.as_bytes());
    let webhook = start(&files);
    let (mut missing, mut unready) = (undeclared(), undeclared());
    missing["spec"]["containers"][1]["name"] = "apii".into();
    unready["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"] = "pg".into();
    for (pod, why) in [(missing, "there is no container api; did you mean apii?"), (unready, "db has no port named pg")]
    {
        let response = ask(&webhook, &files, &pod);
        let what = format!("orders[0] does not fit this Pod, so podgate does not change the Pod: {why}");
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{response}");
        assert_eq!(response["auditAnnotations"]["outcome"], "misfit");
        let [warning] = &response["warnings"].as_array().unwrap()[..] else { panic!("{response}") };
        assert!(warning.as_str().unwrap().starts_with(&format!("podgate: metadata.annotations: {what}")), "{warning}");
        let why_logged =
            |line: &Value| line["msg"] == "allowed without an order" && line["why"].to_string().contains(why);
        eventually(&format!("no log line with {why:?}"), || webhook.log().iter().any(why_logged).then_some(()));
    }
    assert_eq!((outcomes(&webhook, "misfit"), outcomes(&webhook, "refused")), (2.0, 0.0));
}

/// A later webhook changes the injected Pod so that podgate cannot inject it again. With its own order, such a Pod is
/// denied.
#[test]
fn pod_that_a_later_webhook_changes_is_not_denied() {
    let files = Files::new();
    files.put("orders.yaml", FILE.as_bytes());
    let (webhook, without) = (start(&files), Webhook::with_files(&files, &[]));
    let injected = patched(&undeclared(), &ask(&webhook, &files, &undeclared()));
    for (pointer, value, with_own_order) in [
        ("/spec/containers/0/name", json!("database"), "deferred"),
        ("/spec/containers/1/command/0", json!("/other"), "refused"),
    ] {
        let mut changed = injected.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let outcome = |webhook| ask(webhook, &files, &changed)["auditAnnotations"]["outcome"].take();
        assert_eq!((outcome(&without), outcome(&webhook)), (json!(with_own_order), json!("misfit")));
        let response = ask(&webhook, &files, &changed);
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{response}");
    }
}

#[test]
fn invalid_file_keeps_the_last_valid_orders() {
    let files = Files::new();
    let webhook = start(&files);
    let is_injected = || ask(&webhook, &files, &undeclared()).get("patch").is_some();
    assert!(!is_injected(), "the ConfigMap is optional");
    files.put("orders.yaml", FILE.as_bytes());
    eventually("the new file is used", || is_injected().then_some(()));
    files.put("orders.yaml", FILE.replace("podgate.io/order", "podgate.io/ordr").as_bytes());
    let warning = "cannot use the file of --orders; the last valid content remains in use";
    let error = webhook.logged(warning)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("orders.yaml: ") && error.contains("did you mean podgate.io/order?"), "{error}");
    assert!(error.contains("line 4"), "{error}");
    let failed = "podgate_webhook_order_file_reads_total{result=\"failed\"}";
    eventually("the file is read again", || (webhook.metric(failed) >= 2.0).then_some(()));
    assert_eq!(webhook.log().iter().filter(|line| line["msg"] == warning).count(), 1, "the error is logged once");
    assert!(is_injected() && webhook.is_ready());
}

/// Pods with their own order need the webhook, even if the file of orders is invalid.
#[test]
fn invalid_file_does_not_prevent_the_start() {
    for text in ["orders: [", "{}", &" ".repeat(200 << 10), &"a: &a [".repeat(1000)] {
        let files = Files::new();
        files.put("orders.yaml", text.as_bytes());
        let webhook = start(&files);
        webhook.logged("cannot use the file of --orders; the last valid content remains in use");
        assert!(ask(&webhook, &files, &pod("db, api")).get("patch").is_some());
        assert!(ask(&webhook, &files, &undeclared()).get("patch").is_none());
    }
}

/// Small values need much more memory than their text, and aliases expand to more text.
#[test]
fn largest_files_need_little_memory() {
    let files = Files::new();
    let aliases = format!("orders: [&a {{podLabels: {{a: {}}}}}{}]", "b".repeat(60_000), ", *a".repeat(15_000));
    for text in [format!("orders: [{}]", "{},".repeat(40_000)), aliases] {
        assert!(text.len() <= 128 << 10 && text.len() > 100 << 10, "{}", text.len());
        files.put("orders.yaml", text.as_bytes());
        let webhook = start(&files);
        assert!(webhook.peak_memory_kib() < 64 << 10, "{} KiB", webhook.peak_memory_kib());
    }
}

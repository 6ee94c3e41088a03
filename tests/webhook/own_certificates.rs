//! Tests of `--tls self`: the Secret, the CA bundle and the served certificate.

use crate::api::Api;
use crate::client::{pod, review};
use crate::program::{Webhook, eventually};
use serde_json::Value;

fn start(api: &Api, arguments: &[&str]) -> Webhook {
    Webhook::start(&[&["--kubeconfig", api.kubeconfig()], arguments].concat(), api.home.path())
}

fn ready(webhook: &Webhook) {
    eventually("the webhook is ready", || webhook.is_ready().then_some(()));
}

/// Asserts that the webhook responds to a client with the current CA bundle.
fn works(api: &Api, webhook: &Webhook) {
    let client = webhook.client(&api.bundle());
    assert_eq!(client.review(&review("one", &pod("db, api")))["uid"], "one");
}

fn keys(secret: &Value) -> Vec<String> {
    secret["data"].as_object().map(|data| data.keys().cloned().collect()).unwrap_or_default()
}

fn certificates(bundle: &[u8]) -> usize {
    String::from_utf8_lossy(bundle).matches("BEGIN CERTIFICATE").count()
}

#[test]
fn two_replicas_share_one_certificate() {
    let api = Api::new();
    let webhooks = [start(&api, &[]), start(&api, &[])];
    for webhook in &webhooks {
        ready(webhook);
        works(&api, webhook);
    }
    assert_eq!(keys(&api.secret()), ["ca.crt", "tls.crt", "tls.key"], "the CA's key is not stored");
    assert_eq!(certificates(&api.bundle()), 1);
    assert_eq!(api.writes(), 2, "one write each to the Secret and the configuration");
    // A third replica finds nothing left to do.
    let third = start(&api, &[]);
    ready(&third);
    works(&api, &third);
    assert_eq!(api.writes(), 2);
    assert!(third.metric("podgate_webhook_certificate_expiry_timestamp") > 0.0);
}

#[test]
fn conflict_is_retried_without_a_warning() {
    let api = Api::new();
    api.refuse(2);
    let webhook = start(&api, &[]);
    ready(&webhook);
    works(&api, &webhook);
    assert_eq!(webhook.log().iter().filter(|line| line["level"] == "warn").count(), 0, "{:?}", webhook.log());
}

#[test]
fn removed_ca_bundle_is_restored() {
    let api = Api::new();
    let webhook = start(&api, &["--certificate-life", "60s"]);
    ready(&webhook);
    let bundle = api.bundle();
    for webhook in [0, 2] {
        api.change(|_, configuration| {
            configuration["webhooks"][webhook]["clientConfig"]["caBundle"] = Value::Null;
        });
        eventually("the bundle is restored", || (api.bundle() == bundle).then_some(()));
    }
    works(&api, &webhook);
}

/// Every renewal changes the CA. This test empties the Secret instead of waiting until a certificate expires. Both
/// replicas must always be reachable with the API server's current bundle.
#[test]
fn change_of_the_ca_causes_no_outage() {
    let api = Api::new();
    let webhooks = [start(&api, &["--certificate-life", "60s"]), start(&api, &["--certificate-life", "60s"])];
    webhooks.iter().for_each(ready);
    let old = api.bundle();
    api.change(|secret, _| {
        secret.as_mut().unwrap().as_object_mut().unwrap().remove("data");
    });
    let mut phases = Vec::new();
    let accepts = |webhook: &Webhook, ca: &[u8]| webhook.client(ca).connect().is_ok();
    eventually("both serve the new certificate", || {
        let bundle = api.bundle();
        for webhook in &webhooks {
            assert!(accepts(webhook, &bundle), "unreachable");
            assert!(webhook.is_ready());
        }
        if phases.last() != Some(&certificates(&bundle)) {
            phases.push(certificates(&bundle));
        }
        webhooks.iter().all(|webhook| !accepts(webhook, &old)).then_some(())
    });
    assert_eq!(phases, [1, 2], "the old CA remains until its certificate has expired");
    assert_eq!(keys(&api.secret()), ["ca.crt", "old-ca.crt", "tls.crt", "tls.key"]);
    assert!(String::from_utf8_lossy(&api.bundle()).ends_with(&*String::from_utf8_lossy(&old)));
    for webhook in &webhooks {
        works(&api, webhook);
        assert!(webhook.is_ready());
    }
}

#[test]
fn missing_secret_is_logged_once_and_retried() {
    let api = Api::new();
    let secret = api.secret();
    api.change(|secret, _| *secret = None);
    let webhook = start(&api, &[]);
    let line = webhook.logged("certificate check failed; will retry");
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("cannot get the Secret podgate-webhook-tls: not found; to create it, install podgate again"),
        "{error}"
    );
    assert_eq!(webhook.page("/readyz").body, "no certificate yet\n");
    assert_eq!(webhook.page("/healthz").status, 200, "a restart would not help");
    assert!(webhook.client(b"").connect().is_err());
    eventually("the webhook retries", || {
        (webhook.metric("podgate_webhook_certificate_checks_total{result=\"failed\"}") >= 2.0).then_some(())
    });
    let warnings = webhook.log().iter().filter(|line| line["level"] == "warn").count();
    assert_eq!(warnings, 1);
    api.change(|held, _| *held = Some(secret));
    ready(&webhook);
    works(&api, &webhook);
}

/// Tests Secrets with invalid or missing parts.
#[test]
fn broken_secret_is_replaced() {
    for (key, value) in [("tls.key", "Z2FyYmFnZQ=="), ("ca.crt", ""), ("tls.crt", "")] {
        let api = Api::new();
        ready(&start(&api, &[]));
        api.change(|secret, _| secret.as_mut().unwrap()["data"][key] = value.into());
        let webhook = start(&api, &[]);
        ready(&webhook);
        works(&api, &webhook);
        let has_warned = || webhook.log().iter().any(|line| line["level"] == "warn");
        eventually(&format!("no warning for {key}"), || has_warned().then_some(()));
    }
}

#[test]
fn webhook_keeps_serving_when_checks_fail() {
    let api = Api::new();
    let mut webhook = start(&api, &["--certificate-life", "60s", "--request-timeout", "1s"]);
    ready(&webhook);
    api.change(|secret, _| *secret = None);
    webhook.logged("certificate check failed; will retry");
    assert!(webhook.is_alive() && webhook.is_ready(), "the served certificate is still valid");
    works(&api, &webhook);
}

//! `--tls self`: what is kept, what the API server is told, what is shown.

use crate::api::Api;
use crate::client::{pod, review};
use crate::program::{Webhook, eventually};
use serde_json::Value;
use std::time::Duration;

fn start(api: &Api, arguments: &[&str]) -> Webhook {
    Webhook::start(&[&["--kubeconfig", api.kubeconfig()], arguments].concat(), api.home.path())
}

fn ready(webhook: &Webhook) {
    eventually("it is ready", || webhook.is_ready().then_some(()));
}

/// As the API server would call it now.
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
fn two_replicas_agree() {
    let api = Api::new();
    let webhooks = [start(&api, &[]), start(&api, &[])];
    for webhook in &webhooks {
        ready(webhook);
        works(&api, webhook);
    }
    assert_eq!(keys(&api.secret()), ["ca.crt", "tls.crt", "tls.key"], "no CA's key is kept");
    assert_eq!(certificates(&api.bundle()), 1);
    assert_eq!(api.writes(), 2, "one each, of the Secret and of the configuration");
    // A third finds all done.
    let third = start(&api, &[]);
    ready(&third);
    works(&api, &third);
    assert_eq!(api.writes(), 2);
    assert!(third.metric("podgate_webhook_certificate_expiry_timestamp") > 0.0);
}

#[test]
fn who_is_overtaken_looks_again() {
    let api = Api::new();
    api.refuse(2);
    let webhook = start(&api, &[]);
    ready(&webhook);
    works(&api, &webhook);
    assert_eq!(webhook.log().iter().filter(|line| line["level"] == "warn").count(), 0, "{:?}", webhook.log());
}

#[test]
fn a_bundle_that_was_overwritten_is_put_right() {
    let api = Api::new();
    let webhook = start(&api, &["--certificate-life", "60s"]);
    ready(&webhook);
    let bundle = api.bundle();
    api.change(|_, configuration| {
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    });
    eventually("it is there again", || (api.bundle() == bundle).then_some(()));
    works(&api, &webhook);
}

/// A change of the CA, as it comes with each renewal; begun by emptying the Secret, which needs no waiting for the end of a life.
/// At every moment both replicas are to be reached with the bundle that the API server has then.
#[test]
fn a_change_of_the_ca_without_a_gap() {
    let api = Api::new();
    let webhooks = [start(&api, &["--certificate-life", "60s"]), start(&api, &["--certificate-life", "60s"])];
    webhooks.iter().for_each(ready);
    let old = api.bundle();
    api.change(|secret, _| {
        secret.as_mut().unwrap().as_object_mut().unwrap().remove("data");
    });
    let mut phases = Vec::new();
    let shows = |webhook: &Webhook, ca: &[u8]| webhook.client(ca).connect().is_ok();
    eventually("both show the new one", || {
        let bundle = api.bundle();
        for webhook in &webhooks {
            assert!(shows(webhook, &bundle), "not to be reached");
            assert!(webhook.is_ready());
        }
        if phases.last() != Some(&certificates(&bundle)) {
            phases.push(certificates(&bundle));
        }
        webhooks.iter().all(|webhook| !shows(webhook, &old)).then_some(())
    });
    assert_eq!(phases, [1, 2], "the old CA stays until its certificate has expired");
    assert_eq!(keys(&api.secret()), ["ca.crt", "old-ca.crt", "tls.crt", "tls.key"]);
    assert!(String::from_utf8_lossy(&api.bundle()).ends_with(&*String::from_utf8_lossy(&old)));
    for webhook in &webhooks {
        works(&api, webhook);
        assert!(webhook.is_ready());
    }
}

#[test]
fn what_is_missing_is_said_once_and_waited_for() {
    let api = Api::new();
    let secret = api.secret();
    api.change(|secret, _| *secret = None);
    let webhook = start(&api, &[]);
    let line = webhook.logged("can't look after the certificates; tries again");
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("can't get the Secret podgate-webhook-tls: there is none; apply manifests/injector"),
        "{error}"
    );
    assert_eq!(webhook.page("/readyz").body, "no certificate yet\n");
    assert_eq!(webhook.page("/healthz").status, 200, "a restart would fix nothing");
    assert!(webhook.client(b"").connect().is_err());
    eventually("it tries again", || {
        (webhook.metric("podgate_webhook_certificate_checks_total{result=\"failed\"}") >= 2.0).then_some(())
    });
    let said = webhook.log().iter().filter(|line| line["level"] == "warn").count();
    assert_eq!(said, 1);
    api.change(|held, _| *held = Some(secret));
    ready(&webhook);
    works(&api, &webhook);
}

/// Somebody's hand in the Secret: a key that does not fit, half of it gone, garbage.
#[test]
fn a_spoilt_secret_is_made_anew() {
    for (key, value) in [("tls.key", "Z2FyYmFnZQ=="), ("ca.crt", ""), ("tls.crt", "")] {
        let api = Api::new();
        ready(&start(&api, &[]));
        api.change(|secret, _| secret.as_mut().unwrap()["data"][key] = value.into());
        let webhook = start(&api, &[]);
        ready(&webhook);
        works(&api, &webhook);
        let why = webhook.log().iter().any(|line| line["level"] == "warn");
        assert!(why, "{key}: {:?}", webhook.log());
    }
}

#[test]
fn without_an_api_server_it_lives_on() {
    let api = Api::new();
    let mut webhook = start(&api, &["--certificate-life", "60s", "--request-timeout", "1s"]);
    ready(&webhook);
    api.change(|secret, _| *secret = None);
    webhook.logged("can't look after the certificates; tries again");
    std::thread::sleep(Duration::from_secs(1));
    assert!(webhook.is_alive() && webhook.is_ready(), "its certificate is good");
    works(&api, &webhook);
}

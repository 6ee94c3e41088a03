//! Tests of the facts about the API server that decide whether the kubelet can hold containers.

use crate::answers::patched;
use crate::api::Api;
use crate::client::{pod, review};
use crate::program::{Files, Webhook};
use serde_json::{Value, json};

/// Returns a Pod in which the command of `api`, which waits for `db`, is not known.
fn unknown_command() -> Value {
    let mut pod = pod("db, api");
    pod["spec"]["containers"][1]["command"] = Value::Null;
    pod
}

/// Starts the webhook with an API server of this version. Returns the response for [`unknown_command`].
fn respond(minor: Option<u32>) -> Value {
    let (api, files) = (Api::new(), Files::new());
    api.set_minor_version(minor);
    let webhook = Webhook::with_files(&files, &["--kubeconfig", api.kubeconfig()]);
    let expected = match minor {
        Some(_) => "read the version of Kubernetes",
        None => "cannot read the version of Kubernetes; will retry",
    };
    webhook.logged(expected);
    webhook.client(&files.ca).review(&review("one", &unknown_command()))
}

#[test]
fn container_without_a_command_is_held_or_refused() {
    for minor in [None, Some(35), Some(37)] {
        let response = respond(minor);
        assert_eq!(response["allowed"], true, "{minor:?}: {response}");
        let injected = patched(&unknown_command(), &response);
        assert_eq!(injected["spec"]["containers"][1]["env"][0]["name"], "PODGATE_HOLD", "{injected:#}");
    }
    let response = respond(Some(34));
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(422)));
    let message = response["status"]["message"].as_str().unwrap();
    let cause = "the command of api is not known, and hold mode needs Kubernetes 1.35, but this is 1.34";
    for part in [cause, "command.podgate.io/api", "--resolve-images", "mode.podgate.io/api: post-start"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

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

/// Starts the webhook with an API server of this version, which answers a PodTemplate with this code. Returns the
/// response for [`unknown_command`].
fn respond(minor: Option<u32>, template_code: u16) -> Value {
    let (api, files) = (Api::new(), Files::new());
    api.set_minor_version(minor);
    api.set_template_code(template_code);
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
    // 403: the role of an older installation does not permit the webhook to create PodTemplates.
    for (minor, template_code) in [(None, 201), (Some(35), 201), (Some(35), 403), (Some(37), 201)] {
        let response = respond(minor, template_code);
        assert_eq!(response["allowed"], true, "{minor:?}: {response}");
        let injected = patched(&unknown_command(), &response);
        assert_eq!(injected["spec"]["containers"][1]["env"][0]["name"], "PODGATE_HOLD", "{injected:#}");
    }
    for (minor, template_code, cause) in [
        (34, 422, "hold mode needs Kubernetes 1.35, but this is 1.34"),
        (36, 422, "hold mode needs the feature gate EnvFiles, which is off at this cluster's API server"),
    ] {
        let response = respond(Some(minor), template_code);
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(422)));
        let message = response["status"]["message"].as_str().unwrap();
        let cause = format!("the command of api is not known, and {cause}");
        for part in [&*cause, "command.podgate.io/api", "--resolve-images", "mode.podgate.io/api: post-start"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

//! Tests of clusters without the feature gate `EnvFiles`, which hold mode needs. In Kubernetes 1.35 to 1.37, an
//! administrator can turn off this feature gate.

use crate::admission::verify_output;
use crate::clock::eventually;
use crate::cluster::{WithoutEnvFiles, minor_version, try_script};
use crate::pod::{Pod, server};
use crate::scenario_view::run_podgate;
use crate::scene::{Scene, skip};
use serde_json::Value;

/// Creates a Pod, which must fail, and returns the error message.
fn creation_error(namespace: &str, pod: &Value) -> String {
    let created = try_script(&["kubectl", "-n", namespace, "create", "-f", "-"], &pod.to_string());
    created.expect_err("the API server rejects the Pod")
}

/// Creates a scene, unless nobody can switch the feature off.
fn scene_without_env_files(name: &str) -> Option<Scene> {
    if minor_version() > 37 {
        skip(name, "Kubernetes 1.38 always has the feature EnvFiles");
        return None;
    }
    Scene::exclusive(name)
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn api_server_without_env_files_rejects_held_pods_alone() {
    let Some(scene) = scene_without_env_files("no-env-files") else { return };
    let namespace = scene.namespace.as_str();
    let _gates = WithoutEnvFiles::restart("apiserver");
    let held = Pod::new("held", [server("db"), server("api").held(&["--until", "db"])]).json();
    let error = creation_error(namespace, &held);
    assert!(error.contains("env[0].valueFrom: Invalid value"), "{error}");
    let output = verify_output(namespace);
    assert!(output.contains("hold mode is not possible: the API server does not support fileKeyRef"), "{output}");
}

/// The API server accepts a held container, but the kubelet does not support variables from files. The kubelet is older
/// than 1.35, or its feature gate `EnvFiles` is off.
#[test]
#[ignore = "needs a cluster: make e2e"]
fn kubelet_without_env_files_starts_no_held_container_alone() {
    let Some(scene) = scene_without_env_files("no-env-files-node") else { return };
    scene.grant_pod_access();
    let _gates = (minor_version() >= 35).then(|| WithoutEnvFiles::restart("kubelet"));
    let run = scene.create(&Pod::new("held", [server("db"), server("api").held(&["--until", "db"])]));
    // The sidecar opens the gate of api, but the kubelet still cannot create `api`.
    let status = eventually("status names the cause", 60, || {
        let (_, status) = run_podgate(&run, &["status"]);
        status.contains("feature gate EnvFiles off").then_some(status)
    });
    scene.report(&status);
    assert!(run.log("db").time_of("start").is_some());
    assert_eq!(run.log("api").time_of("start"), None, "order broken: api started");
}

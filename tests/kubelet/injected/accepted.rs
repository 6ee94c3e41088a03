//! Tests that the API server accepts the output of `inject` for every manifest of `tests/manifests/inject/corpus`, in a
//! dry run.

use super::inject_manifest;
use crate::cluster::{ROOT, kubectl, minor_version, try_script};
use crate::scene::Scene;
use podgate::order::inject::is_injected;
use podgate::order::pod_templates;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Manifests that `inject` rejects.
const REJECTED: [&str; 4] = ["ephemeral.yaml", "hook-refused.yaml", "name-taken.yaml", "windows.yaml"];

fn documents(text: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options).expect("YAML")
}

/// Returns true if the template needs Kubernetes 1.35 or later.
fn needs_newer_kubernetes(template: &Value) -> bool {
    // An API server before Kubernetes 1.35 rejects a restartPolicy on regular containers.
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let mut volumes = template["spec"]["volumes"].as_array().into_iter().flatten();
    // It also drops the image of a volume, and then rejects the volume.
    volumes.any(|volume| volume["image"].is_object())
        || containers.into_iter().any(|container| container["restartPolicy"].is_string())
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn api_server_accepts_every_injected_manifest() {
    let scene = Scene::shared("inj-accepted");
    let minor = minor_version();
    let (mut items, mut accounts) = (Vec::new(), BTreeSet::new());
    let entries = std::fs::read_dir(format!("{ROOT}/tests/manifests/inject/corpus")).expect("the corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    for path in files {
        let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if REJECTED.contains(&file) {
            continue;
        }
        let text = inject_manifest(path.to_str().expect("a path"), &[]).unwrap_or_else(|error| panic!("{error}"));
        for document in documents(&text).into_iter().filter(|document| !document.is_null()) {
            for template in pod_templates::templates(&document) {
                let template = template.place.of(&document).expect("a template");
                if !is_injected(template) || needs_newer_kubernetes(template) && minor < 35 {
                    continue;
                }
                if let Some(account) = template["spec"]["serviceAccountName"].as_str() {
                    accounts.insert(account.to_owned());
                }
                // Create each template as a Pod: the API server validates templates of other kinds less strictly.
                let name = format!("p{}-{}", items.len(), file.split('.').next().expect("a name"));
                let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
                pod["metadata"] = template["metadata"].clone();
                pod["metadata"]["name"] = json!(name);
                pod["spec"] = template["spec"].clone();
                for claim in document["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
                    let volume = json!({"name": claim["metadata"]["name"], "emptyDir": {}});
                    pod["spec"]["volumes"].as_array_mut().expect("volumes").push(volume);
                }
                items.push(pod);
            }
            let is_known = document["apiVersion"].as_str().is_some_and(|v| ["v1", "apps/v1", "batch/v1"].contains(&v));
            if is_known && !["Pod", "List", "ServiceAccount"].iter().any(|kind| document["kind"] == *kind) {
                items.push(document);
            }
        }
    }
    for account in accounts {
        kubectl(&["-n", &scene.namespace, "create", "serviceaccount", &account]);
    }
    let pods = items.iter().filter(|item| item["kind"] == "Pod").count();
    assert!(pods > 45, "{pods} Pods");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let arguments =
        ["kubectl", "-n", &scene.namespace, "create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
    let accepted = try_script(&arguments, &list).unwrap_or_else(|error| panic!("refused:\n{error}"));
    scene.report(&format!("{} of {} accepted, {pods} of them as Pods", accepted.lines().count(), items.len()));
    assert_eq!(accepted.lines().count(), items.len(), "{accepted}");
}

//! Tests of `kubectl podgate install`. The command must print the objects of the manifests.

use crate::install::{Objects, by_name, documents, kustomization, object, read, run};
use podgate::order::release;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn command(arguments: &[&str]) -> Command {
    #[allow(clippy::option_env_unwrap, reason = "the webhook's tests are also built without this program")]
    let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").expect("built with the feature kubectl");
    let mut command = Command::new(program);
    command.env_clear().arg("install").args(arguments);
    command
}

fn printed(arguments: &[&str]) -> String {
    let output = command(arguments).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn objects(arguments: &[&str]) -> Objects {
    by_name(documents(&printed(arguments)))
}

/// Returns `value` with the fields of each object sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.into_iter().collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn command_prints_the_objects_of_kustomize() {
    let printed = objects(&[]);
    assert_eq!(printed, by_name([kustomization("manifests"), kustomization("manifests/injector")].concat()));
    let mut rendered = Vec::new();
    for directory in ["manifests", "manifests/injector"] {
        let Some(output) = run("kubectl", &["kustomize", directory]) else { return };
        rendered.extend(documents(&String::from_utf8(output.stdout).unwrap()));
    }
    // kustomize adds line breaks to folded expressions.
    let folded = |objects: Objects| -> Vec<String> {
        objects.values().map(|object| sorted(object).to_string().replace("\\n\\n", "\\n")).collect()
    };
    assert_eq!(folded(printed), folded(by_name(rendered)));
}

#[test]
fn policies_come_before_rights_and_rights_before_workloads() {
    let kinds = |arguments: &[&str]| -> Vec<String> {
        documents(&printed(arguments)).iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect()
    };
    let all = kinds(&["--namespaces", "shop"]);
    let stage = |kind: &String| match kind.as_str() {
        "Namespace" => 0,
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => 1,
        "NetworkPolicy" | "ClusterRole" | "ServiceAccount" | "Secret" | "Role" | "RoleBinding"
        | "ClusterRoleBinding" => 2,
        "Deployment" | "PodDisruptionBudget" | "Service" => 3,
        "MutatingWebhookConfiguration" => 4,
        kind => panic!("{kind}"),
    };
    assert!(all.is_sorted_by_key(stage), "{all:?}");
    let mut deleted = kinds(&["--namespaces", "shop", "--uninstall"]);
    deleted.reverse();
    assert_eq!(deleted, all[1..], "all but the namespace, in reverse order");
}

#[test]
fn flags_change_only_their_fields() {
    let flags =
        ["--registry", "registry.example:5000/mirror", "--namespaces", "shop,bank", "--failure-policy", "Ignore"];
    let mut changed = objects(&flags);
    for namespace in ["shop", "bank"] {
        let mut binding = changed.remove(&("RoleBinding".to_owned(), format!("{namespace}/podgate-sidecars"))).unwrap();
        binding["metadata"].as_object_mut().unwrap().remove("namespace");
        assert_eq!(binding, documents(&read("manifests/rolebinding.yaml"))[0]);
    }
    let container = &object(&changed, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let at = |name: &str| release::image(name).replace(release::IMAGE_REGISTRY, "registry.example:5000/mirror");
    assert_eq!(container["image"], at("podgate-webhook"));
    assert_eq!(
        container["env"],
        json!([
        {"name": "PODGATE_IMAGE", "value": at("podgate")}, {"name": "PODGATE_NAMESPACES", "value": "shop,bank"}])
    );
    let mut differing = objects(&[]);
    differing.retain(|key, object| changed[key] != *object);
    let kinds: Vec<&str> = differing.keys().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["Deployment", "MutatingWebhookConfiguration"]);
    let key = ("MutatingWebhookConfiguration".to_owned(), "/zz-podgate-webhook".to_owned());
    let mut expected = differing.remove(&key).unwrap();
    expected["webhooks"][0]["failurePolicy"] = json!("Ignore");
    assert_eq!(changed[&key], expected);
}

#[test]
fn invalid_values_are_rejected() {
    for (arguments, expected) in [
        (["--namespaces", "shop,A b"], "not the name of a namespace"),
        (["--registry", "a b"], "write HOST/PATH"),
        (["--registry", ""], "write HOST/PATH"),
        (["--failure-policy", "fail"], "[possible values: Fail, Ignore]"),
        (["--diff", "--uninstall"], "cannot be used with"),
    ] {
        let output = command(&arguments).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(64) && err.contains(expected), "{arguments:?}: {err}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn diff_passes_the_manifests_to_kubectl() {
    let home = tempfile::tempdir().unwrap();
    let kubectl = home.path().join("kubectl");
    let diff = |script: &str| {
        fs::write(&kubectl, format!("#!/bin/sh\n[ \"$*\" = 'diff -f -' ] || exit 9\n{script}\n")).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", home.path().display());
        command(&["--diff"]).env("PATH", path).current_dir(home.path()).output().unwrap()
    };
    let same = diff("cat >given.yaml");
    assert_eq!((same.status.code(), same.stdout.len()), (Some(0), 0), "{same:?}");
    assert_eq!(fs::read_to_string(home.path().join("given.yaml")).unwrap(), printed(&[]));
    let changed = diff("cat >given.yaml; echo '+  replicas: 3'; exit 1");
    assert_eq!((changed.status.code(), changed.stdout), (Some(1), b"+  replicas: 3\n".to_vec()));
    let failed = diff("echo 'E1129 10:00:00.000000 1 memcache.go:265] log' >&2; echo 'no server' >&2; exit 2");
    assert_eq!((failed.status.code(), failed.stderr), (Some(1), b"no server\n".to_vec()), "kubectl reads no input");
    let output = command(&["--diff"]).env("PATH", "/nonexistent").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && err.starts_with("error: cannot run kubectl: "), "{err}");
}

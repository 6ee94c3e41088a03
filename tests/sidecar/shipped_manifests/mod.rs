//! Tests that `manifests/`, which users copy, match the code. Each file parses, every name and path matches
//! `core::names`, and `PODGATE_CONTAINERS` matches the containers' probes.

mod gates;
mod held;
mod pods;

use podgate::core::names;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Pods with hooks.
const HOOKED: [&str; 1] = ["pod.yaml"];
/// Pods with gates.
const GATED: [&str; 2] = ["pod-entrypoint.yaml", "job.yaml"];
/// Pod in hold mode.
const HELD: &str = "pod-hold.yaml";
const PODS: [&str; 4] = [HOOKED[0], GATED[0], GATED[1], HELD];
/// Directory in which Kubernetes clients look for the token.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn text(file: &str) -> String {
    let path = format!("{}/manifests/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the Pod of a file, or the Pod template of a Job.
fn pod(file: &str) -> Value {
    let mut all = documents(file);
    assert_eq!(all.len(), 1, "{file}");
    let mut one = all.remove(0);
    if one["kind"] == "Job" { one["spec"]["template"].take() } else { one }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn named<'a>(value: &'a Value, key: &str, name: &str) -> &'a Value {
    list(value, key).find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {key} {name}"))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().expect("a string")).collect()
}

/// Returns the sidecar and the application containers.
fn parts(pod: &Value) -> (&Value, Vec<&Value>) {
    let spec = &pod["spec"];
    let all: Vec<&Value> = list(spec, "initContainers").chain(list(spec, "containers")).collect();
    assert_eq!(all[0]["name"], "podgate", "the sidecar must come first");
    (all[0], all[1..].to_vec())
}

/// Returns the mount of `volume` in `container`.
fn mount<'a>(container: &'a Value, volume: &str) -> Option<&'a Value> {
    list(container, "volumeMounts").find(|mount| mount["name"] == volume)
}

fn hook(container: &Value) -> Vec<&str> {
    strings(&container["lifecycle"]["postStart"]["exec"]["command"])
}

fn pre_stop(container: &Value) -> Vec<&str> {
    strings(&container["lifecycle"]["preStop"]["exec"]["command"])
}

fn agent() -> String {
    format!("{}/{}/{}", names::BOARD_DIR, names::BIN_SUBDIR, names::AGENT_FILE)
}

/// Returns the agent's arguments in front of the container's own command. Empty if the container has no gate.
fn gate(container: &Value) -> Vec<&str> {
    let command = strings(&container["command"]);
    if command.first() == Some(&agent().as_str()) { command } else { Vec::new() }
}

/// Returns the values of a repeatable flag.
fn values<'a>(command: &[&'a str], flag: &str) -> Vec<&'a str> {
    command.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect()
}

#[test]
fn every_file_has_the_expected_kinds() {
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests")).expect("manifests/");
    for entry in files.map(|entry| entry.expect("an entry")) {
        let file = entry.file_name().into_string().expect("a name");
        // Skip `manifests/injector`, which the tests of the webhook cover.
        if entry.path().is_dir() {
            continue;
        }
        let kinds: Vec<Value> = documents(&file).iter_mut().map(|document| document["kind"].take()).collect();
        let expected: &[&str] = match file.as_str() {
            "rbac.yaml" => &["ClusterRole"],
            "rolebinding.yaml" => &["RoleBinding"],
            "policy.yaml" => &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
            "kustomization.yaml" => &["Kustomization"],
            "job.yaml" => &["Job"],
            file if PODS.contains(&file) => &["Pod"],
            _ => panic!("manifests/{file}: add its kinds to this test"),
        };
        assert_eq!(kinds, expected, "{file}");
    }
}

#[test]
fn kustomization_lists_existing_files() {
    let kustomization = &documents("kustomization.yaml")[0];
    let resources = strings(&kustomization["resources"]);
    assert_eq!(resources, ["policy.yaml", "rbac.yaml"], "the role must not be bound by default");
    for file in resources {
        text(file);
    }
}

#[test]
fn role_has_the_minimum_permissions() {
    let role = &documents("rbac.yaml")[0];
    let expected = serde_json::json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch", "patch"]},
        {"apiGroups": ["podgate.io"], "resources": ["ownpods"], "verbs": ["report"]},
    ]);
    assert_eq!(role["rules"], expected);
    let binding = &documents("rolebinding.yaml")[0];
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert!(binding["metadata"].get("namespace").is_none(), "the file must work in every namespace");
    assert_eq!(binding["subjects"], serde_json::json!([{"kind": "ServiceAccount", "name": "default"}]));
}

#[test]
fn policy_allows_only_podgates_prefixes() {
    let policies = documents("policy.yaml");
    let (policy, binding) = (&policies[0], &policies[1]);
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    let text = text("policy.yaml");
    let prefixes: BTreeSet<&str> = text
        .split("startsWith('")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next())
        .filter(|prefix| !prefix.starts_with("system:"))
        .collect();
    assert_eq!(prefixes, BTreeSet::from([names::STATUS_KEY_PREFIX, names::SANDBOX_KEY_PREFIX]));
    let marker = ".group('podgate.io').resource('ownpods').namespace(request.namespace).check('report')";
    assert!(text.contains(marker), "the policy must check the marker permission of rbac.yaml");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
}

#[test]
fn image_has_this_version() {
    let image = podgate::order::release::sidecar_image();
    for file in PODS {
        assert_eq!(parts(&pod(file)).0["image"], image.as_str(), "{file}");
    }
}

/// The admission policy must allow the longest annotation that the sidecar writes.
#[test]
fn policy_allows_longest_sidecar_annotation() {
    assert!(text("policy.yaml").contains(&format!("size() <= {}", podgate::core::annotations::VALUE_MAX)));
}

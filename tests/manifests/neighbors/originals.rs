//! Compares the Pods of `pods/` with the products' own test data, as listed in `originals.yaml`. The products' git
//! repositories are not part of this repository: `README.md` says how to get them.

use super::pod;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Originals {
    goldens: Vec<Golden>,
    sources: Vec<Source>,
}

/// Pairs a Pod of `pods/` with the file in a product's repository that contains the injected Pod.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    pod: String,
    repository: String,
    commit: String,
    file: String,
    injected: Vec<String>,
    /// Variables of which only the names are compared.
    variables: Vec<String>,
    /// JSON pointers into the result of [`parts`], with reasons.
    omitted: BTreeMap<String, String>,
}

/// Pairs a container of a Pod of `pods/` with a product's files that contain the container's fields as text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    pod: String,
    container: String,
    repository: String,
    commit: String,
    /// JSON pointers into the container, with reasons.
    omitted: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<String>>,
}

fn originals() -> Originals {
    let path = format!("{}/tests/manifests/neighbors/originals.yaml", env!("CARGO_MANIFEST_DIR"));
    serde_saphyr::from_str(&fs::read_to_string(path).expect("a file")).expect("valid YAML")
}

/// Returns the text of a product's file.
fn original(repository: &str, commit: &str, file: &str) -> String {
    let directory = PathBuf::from(
        env::var_os("PODGATE_ORIGINALS")
            .expect("PODGATE_ORIGINALS=DIRECTORY, as in tests/manifests/neighbors/README.md"),
    );
    let git = Command::new("git")
        .arg("-C")
        .arg(directory.join(repository))
        .args(["show", &format!("{commit}:{file}")])
        .output();
    let output = git.expect("git");
    assert!(output.status.success(), "{repository}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the Pod or the Pod template of a product's file.
fn original_pod(repository: &str, commit: &str, file: &str) -> Value {
    let text = original(repository, commit, file);
    let value: Value = serde_saphyr::from_str(text.trim_end().trim_end_matches("---")).expect("valid YAML");
    value.pointer("/spec/template").cloned().unwrap_or(value)
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

fn find<'a>(pod: &'a Value, name: &Value) -> &'a Value {
    let mut all = containers(pod, "initContainers").chain(containers(pod, "containers"));
    all.find(|one| one["name"] == *name).unwrap_or_else(|| panic!("no container {name}"))
}

fn variables(container: &Value) -> impl Iterator<Item = &Value> {
    container["env"].as_array().into_iter().flatten()
}

/// Returns the parts that the product adds to a Pod. Includes only those variables that `ours` has.
fn parts(pod: &Value, ours: &Value, golden: &Golden) -> Value {
    let (mut places, mut injected) = (Map::new(), Map::new());
    for list in ["initContainers", "containers"] {
        let mut names = Vec::new();
        for one in containers(pod, list) {
            let name = one["name"].as_str().expect("a name");
            if !golden.injected.iter().any(|injected| injected == name) {
                names.push("the application");
                continue;
            }
            names.push(name);
            let mut one = one.clone();
            if let Some(env) = one.get_mut("env").and_then(Value::as_array_mut) {
                let kept =
                    |found: &Value| variables(find(ours, &json!(name))).any(|ours| ours["name"] == found["name"]);
                env.retain(kept);
                let differ = |found: &&mut Value| golden.variables.iter().any(|name| found["name"] == name.as_str());
                env.iter_mut().filter(differ).for_each(|found| *found = found["name"].clone());
            }
            injected.insert(name.to_owned(), one);
        }
        names.dedup();
        places.insert(list.to_owned(), json!(names));
    }
    let (spec, metadata) = (&pod["spec"], &pod["metadata"]);
    let mut parts = json!({"places": places, "containers": injected, "volumes": spec["volumes"],
        "annotations": metadata["annotations"], "labels": metadata["labels"]});
    for pointer in golden.omitted.keys() {
        let (parent, field) = pointer.rsplit_once('/').expect("a JSON pointer");
        let parent = parts.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
        parent.remove(&field.replace("~1", "/"));
    }
    parts
}

#[test]
#[ignore = "needs the products' repositories: make originals"]
fn injected_containers_equal_those_of_the_golden_files() {
    for golden in originals().goldens {
        let (ours, found) = (pod(&golden.pod, &[]), original_pod(&golden.repository, &golden.commit, &golden.file));
        let (ours, found) = (parts(&ours, &ours, &golden), parts(&found, &ours, &golden));
        assert_eq!(ours, found, "{} and {}", golden.pod, golden.file);
        println!("{}: equal to {} at {}", golden.pod, golden.file, golden.commit);
    }
}

/// Rewrites the probes and hooks of a container as Istio does. Adds the originals to `probers`.
fn rewrite(container: &Value, probers: &mut BTreeMap<String, Value>) -> Value {
    let mut changed = container.clone();
    for (pointer, path) in [
        ("/livenessProbe", "/app-health/NAME/livez"),
        ("/readinessProbe", "/app-health/NAME/readyz"),
        ("/startupProbe", "/app-health/NAME/startupz"),
        ("/lifecycle/postStart", "/app-lifecycle/NAME/poststartz"),
        ("/lifecycle/preStop", "/app-lifecycle/NAME/prestopz"),
    ] {
        let path = path.replace("NAME", container["name"].as_str().expect("a name"));
        let Some(probe) = changed.pointer_mut(pointer).and_then(Value::as_object_mut) else { continue };
        let kinds = ["httpGet", "tcpSocket", "grpc"].into_iter();
        let Some((kind, mut action)) = kinds.filter_map(|kind| Some((kind, probe.remove(kind)?))).next() else {
            continue;
        };
        let mut ports = container["ports"].as_array().into_iter().flatten();
        if let Some(port) = ports.find(|port| port["name"] == action["port"]) {
            action["port"] = port["containerPort"].clone();
        }
        let mut original = json!({kind: action});
        if let Some(timeout) = probe.get("timeoutSeconds") {
            original["timeoutSeconds"] = timeout.clone();
        }
        probe.insert("httpGet".to_owned(), json!({"path": path, "port": 15020}));
        probers.insert(path, original);
    }
    changed
}

fn assert_rewritten(before: &Value, after: &Value, what: &str) {
    let mut probers = BTreeMap::new();
    for one in containers(before, "initContainers").chain(containers(before, "containers")) {
        let mut found = find(after, &one["name"]).clone();
        // Ignore empty resources, because Go writes an empty struct.
        found.as_object_mut().expect("a container").retain(|name, value| name != "resources" || *value != json!({}));
        assert_eq!(found, rewrite(one, &mut probers), "{what}");
    }
    let proxy = find(after, &json!("istio-proxy"));
    let known = variables(proxy).find(|one| one["name"] == "ISTIO_KUBE_APP_PROBERS").expect("the originals");
    let known: Value = serde_json::from_str(known["value"].as_str().expect("a value")).expect("JSON");
    assert_eq!(known, json!(probers), "{what}");
    println!("{what}: {} probes and hooks are rewritten", probers.len());
}

/// Applies [`rewrite`] to Pods before the injection, both to the product's test data and to our Pods. The results must
/// match the Pods after the injection.
#[test]
#[ignore = "needs the products' repositories: make originals"]
fn istio_rewrites_probes_as_in_its_test_data() {
    let (directory, commit) = ("pkg/kube/inject", originals().goldens[0].commit.clone());
    for name in ["hello-probes", "startup_ready_live", "tcp-probes"] {
        let file = |end: &str| original_pod("istio", &commit, &format!("{directory}/testdata/inject/{name}{end}"));
        assert_rewritten(&file(".yaml"), &file(".yaml.injected"), name);
    }
    // The `.injected` files have no gRPC probe, so compare with a text in one of Istio's tests.
    let mut probers = BTreeMap::new();
    let probe = json!({"grpc": {"port": 1234, "service": "foo"}, "timeoutSeconds": 10});
    rewrite(&json!({"name": "foo", "startupProbe": probe}), &mut probers);
    let (text, test) =
        (json!(probers).to_string(), original("istio", &commit, &format!("{directory}/app_probe_test.go")));
    assert!(without_spaces(&test).contains(text.trim_end_matches('}')), "{text}");
    for mode in ["istio-default.after", "istio-hold.after", "istio-native.after"] {
        assert_rewritten(&pod("istio.before", &[]), &pod(mode, &[]), mode);
    }
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Replaces each `{/POINTER}` with the container's value, and each `{/LIST/FROM..TO}` with these items of the list.
/// Adds the pointers to `compared`.
fn fill(text: &str, container: &Value, compared: &mut Vec<String>) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{/") {
        let (pointer, after) = after.split_once('}').expect("a closing brace");
        let (parent, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        let value = |pointer: &str| container.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}: {container:#}"));
        filled += before;
        if let Some((from, to)) = last.split_once("..") {
            let items: std::ops::Range<usize> = from.parse().expect("a number")..to.parse().expect("a number");
            let pointers: Vec<String> = items.map(|at| format!("/{parent}/{at}")).collect();
            filled += &pointers.iter().map(|one| value(one).to_string()).collect::<Vec<_>>().join(",");
            compared.extend(pointers);
        } else {
            let value = value(&format!("/{pointer}"));
            filled += &value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            compared.push(format!("/{pointer}"));
        }
        rest = after;
    }
    filled + rest
}

/// Returns the pointers of all values that contain no other values.
fn leaves(value: &Value, pointer: String) -> Vec<String> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().flat_map(|(name, value)| leaves(value, format!("{pointer}/{name}"))).collect()
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().flat_map(|(at, value)| leaves(value, format!("{pointer}/{at}"))).collect()
        }
        _ => vec![pointer],
    }
}

#[test]
#[ignore = "needs the products' repositories: make originals"]
fn every_field_occurs_in_the_products_sources() {
    for source in originals().sources {
        let what = format!("{}{}", source.pod, source.container);
        let pod = pod(&source.pod, &[]);
        let container = pod.pointer(&source.container).unwrap_or_else(|| panic!("no {what}"));
        let mut compared: Vec<String> = source.omitted.into_keys().collect();
        for (file, texts) in &source.files {
            let found = without_spaces(&original(&source.repository, &source.commit, file));
            for text in texts {
                let text = fill(text, container, &mut compared);
                assert!(found.contains(&without_spaces(&text)), "{what}: not in {file}: {text}");
            }
        }
        let leaves = leaves(container, String::new());
        let known = |leaf: &String| compared.iter().any(|one| leaf == one || leaf.starts_with(&format!("{one}/")));
        let unknown: Vec<&String> = leaves.iter().filter(|leaf| !known(leaf)).collect();
        assert!(unknown.is_empty(), "{what}: not compared: {unknown:?}");
        println!("{what}: {} fields", leaves.len());
    }
}

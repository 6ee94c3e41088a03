//! Tests that `check` finds each mistake in a manifest that contains podgate's parts, written by hand.

use podgate::order::finding::has_errors;
use podgate::order::lint::check_handwritten;
use podgate::order::lint::forecast::Forecast;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the Pods of `manifests/`, by file name.
fn manifests() -> Vec<(&'static str, Value)> {
    let files = ["pod.yaml", "pod-entrypoint.yaml", "pod-hold.yaml", "job.yaml"];
    let read = |file: &&'static str| {
        let path = format!("{}/manifests/{file}", env!("CARGO_MANIFEST_DIR"));
        let mut object: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        (*file, if object["kind"] == "Job" { object["spec"]["template"].take() } else { object })
    };
    files.iter().map(read).collect()
}

fn rules(pod: &Value) -> Vec<&'static str> {
    check_handwritten(pod).unwrap().0.iter().map(|finding| finding.rule).collect()
}

fn list(pod: &Value) -> Value {
    serde_json::from_str(pod["spec"]["initContainers"][0]["env"][0]["value"].as_str().unwrap()).unwrap()
}

/// Collects single mistakes, each with its description and the rules of which at least one must report it.
struct Mistakes<'a> {
    pod: &'a Value,
    all: Vec<(String, Value, &'static str)>,
}

impl Mistakes<'_> {
    fn add(&mut self, what: String, rules: &'static str, change: impl FnOnce(&mut Value)) {
        let mut pod = self.pod.clone();
        change(&mut pod);
        self.all.push((what, pod, rules));
    }

    fn add_to_list(&mut self, what: String, rules: &'static str, change: impl FnOnce(&mut Value)) {
        self.add(what, rules, |pod| {
            let mut list = list(pod);
            change(&mut list);
            pod["spec"]["initContainers"][0]["env"][0]["value"] = list.to_string().into();
        });
    }

    /// Removes each mount of a volume that podgate always needs.
    fn drop_mounts(&mut self, list: &str, at: usize) {
        let pod = self.pod;
        for (index, mount) in pod["spec"][list][at]["volumeMounts"].as_array().into_iter().flatten().enumerate() {
            if matches!(mount["name"].as_str(), Some("podgate-board" | "podgate-self" | "podgate-hold")) {
                self.add(format!("{list}[{at}] without {mount}"), "mount-missing", |pod| {
                    pod["spec"][list][at]["volumeMounts"].as_array_mut().unwrap().remove(index);
                });
            }
            if !mount["subPath"].is_null() {
                self.add(format!("{list}[{at}] with another subPath: {mount}"), "mount-missing", |pod| {
                    pod["spec"][list][at]["volumeMounts"][index]["subPath"] = json!("x");
                });
            }
        }
    }
}

/// Replaces each port in the probes of `container`. Returns the number of changed probes.
fn move_ports(container: &mut Value) -> usize {
    let probes = ["readinessProbe", "startupProbe"].map(|field| container[field].take());
    let mut changed = 0;
    for (field, mut probe) in ["readinessProbe", "startupProbe"].into_iter().zip(probes) {
        for action in ["tcpSocket", "httpGet"] {
            if !probe[action].is_null() {
                probe[action]["port"] = json!(9);
                changed += 1;
            }
        }
        if probe.is_null() { _ = container.as_object_mut().unwrap().remove(field) } else { container[field] = probe }
    }
    changed
}

fn mistakes(pod: &Value) -> Vec<(String, Value, &'static str)> {
    let mut found = Mistakes { pod, all: Vec::new() };
    found.drop_mounts("initContainers", 0);
    let containers = pod["spec"]["containers"].as_array().unwrap();
    for (at, own) in containers.iter().enumerate() {
        let name = own["name"].as_str().unwrap();
        found.drop_mounts("containers", at);
        found.add_to_list(format!("{name} has another name in the list"), "unknown-container", |list| {
            list[at]["name"] = format!("{name}x").into();
        });
        found.add(format!("{name} has another name"), "unknown-container", |pod| {
            pod["spec"]["containers"][at]["name"] = format!("{name}x").into();
        });
        for mode in ["entrypoint", "post-start", "hold"] {
            if list(pod)[at]["mode"] != mode {
                let what = format!("{name} has mode {mode} in the list");
                found.add_to_list(what, "list-differs", |list| list[at]["mode"] = mode.into());
            }
        }
        if move_ports(&mut own.clone()) > 0 {
            let what = format!("{name} has another port in the list");
            found.add_to_list(what, "list-differs", |list| _ = move_ports(&mut list[at]));
            let what = format!("{name} has another port");
            found.add(what, "list-differs", |pod| _ = move_ports(&mut pod["spec"]["containers"][at]));
            let what = format!("the probe of {name} has another period");
            found.add(what, "list-differs", |pod| {
                pod["spec"]["containers"][at]["readinessProbe"]["periodSeconds"] = json!(77);
            });
        }
        if own["ports"].is_array() {
            let what = format!("the named port of {name} has another number");
            found.add(what, "list-differs", |pod| {
                pod["spec"]["containers"][at]["ports"][0]["containerPort"] = json!(9);
            });
        }
        let (mode, until) = (list(pod)[at]["mode"].take(), list(pod)[at]["until"].take());
        if mode == "entrypoint" && until.is_array() {
            let what = format!("{name} has another condition in the list");
            found.add_to_list(what, "list-differs", |list| {
                list[at]["until"] = json!([format!("{}=Started", until[0].as_str().unwrap())])
            });
        }
        match mode.as_str() {
            Some("entrypoint") => found.add(format!("{name} has no gate"), "list-differs", |pod| {
                pod["spec"]["containers"][at]["command"] = json!(["x"]);
            }),
            Some("post-start") => found.add(format!("{name} has no hook"), "list-differs", |pod| {
                pod["spec"]["containers"][at]["lifecycle"]["postStart"] = Value::Null;
            }),
            Some("hold") => found.add(format!("{name} has no variable"), "list-differs", |pod| {
                pod["spec"]["containers"][at]["env"] = json!([]);
            }),
            _ => {}
        }
    }
    let last = containers.len() - 1;
    if list(pod)[0]["mode"] == "post-start" {
        found.add("a hook in the last container".to_owned(), "hook-without-effect", |pod| {
            let name = pod["spec"]["containers"][last]["name"].take();
            let mut copy = pod["spec"]["containers"][last - 1].clone();
            copy["name"] = name.clone();
            copy["lifecycle"]["postStart"]["exec"]["command"][3] = name;
            pod["spec"]["containers"][last] = copy;
        });
    }
    found.add_to_list("the list is no JSON".to_owned(), "order-broken", |list| *list = json!({"a": 1}));
    found.all
}

#[test]
fn each_single_mistake_is_found() {
    let mut tested = BTreeMap::new();
    for (file, pod) in manifests() {
        assert_eq!(rules(&pod), [""; 0], "{file}");
        for (what, pod, rule) in mistakes(&pod) {
            let found = rules(&pod);
            assert!(found.contains(&rule), "{file}: {what}: {rule} is not in {found:?}");
            *tested.entry(rule).or_insert(0) += 1;
        }
    }
    assert!(tested.values().sum::<i32>() > 90 && tested.len() == 5, "{tested:?}");
}

#[test]
fn correct_manifest_has_a_plan() {
    for (file, pod) in manifests() {
        let (found, plan) = check_handwritten(&pod).unwrap();
        assert!(!has_errors(&found), "{file}");
        let starts = Forecast::of(&plan.unwrap()).start_steps;
        let expected: &[&[&str]] =
            if file == "job.yaml" { &[&["proxy"], &["app"]] } else { &[&["db"], &["api"], &["web"]] };
        assert_eq!(starts, expected, "{file}");
    }
    let mut broken = manifests().remove(0).1;
    broken["spec"]["containers"][0]["volumeMounts"] = json!([]);
    assert_eq!(check_handwritten(&broken).unwrap().1, None);
}

/// Without these fields, the sidecar reads the values from the spec.
#[test]
fn list_may_omit_what_the_spec_has() {
    for (file, pod) in manifests() {
        let mut short = pod.clone();
        let mut list = list(&pod);
        for entry in list.as_array_mut().unwrap() {
            let is_held = entry["mode"] == "hold";
            entry
                .as_object_mut()
                .unwrap()
                .retain(|key, _| key == "name" || is_held && (key == "mode" || key == "until"));
        }
        short["spec"]["initContainers"][0]["env"][0]["value"] = list.to_string().into();
        assert_eq!(rules(&short), [""; 0], "{file}");
    }
    let mut without_list = manifests().remove(1).1;
    without_list["spec"]["initContainers"][0]["env"] = json!([]);
    assert_eq!(rules(&without_list), [""; 0]);
}

//! Tests of injected templates that the API server or other webhooks have changed.

use super::corpus::{each_injected, templates};
use super::{injected, lines, options};
use podgate::order::edit::apply;
use podgate::order::inject::{Injected, Options, inject, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};

fn from_api() -> Options {
    Options { is_from_api: true, ..options() }
}

fn reinject(template: &Value) -> Injected {
    let done = inject(template, &from_api(), &KnownFacts::default());
    let done = done.unwrap_or_else(|found| panic!("{}\n{template:#}", lines(&found)));
    let mut applied = template.clone();
    done.edits.iter().for_each(|edit| apply(&mut applied, edit).expect("each edit can be applied"));
    assert_eq!(applied, done.value, "the edits must give the value");
    done
}

fn each<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn default(value: &mut Value, fields: Value) {
    let Some(object) = value.as_object_mut() else { return };
    for (key, field) in fields.as_object().expect("fields") {
        object.entry(key.clone()).or_insert(field.clone());
    }
}

/// Adds the API server's defaults to the fields that `inject` writes.
fn defaulted(template: &Value) -> Value {
    let mut template = template.clone();
    let spec = &mut template["spec"];
    default(spec, json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}));
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            default(
                container,
                json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent", "resources": {}}),
            );
            for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                if let Some(probe) = container.get_mut(probe).filter(|probe| !probe.is_null()) {
                    default(
                        probe,
                        json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
                    );
                    if let Some(get) = probe.get_mut("httpGet") {
                        default(get, json!({"scheme": "HTTP", "path": "/"}));
                    }
                    if let Some(grpc) = probe.get_mut("grpc") {
                        default(grpc, json!({"service": ""}));
                    }
                }
            }
            for field in each(container, "env").filter_map(|one| one.get_mut("valueFrom")?.get_mut("fieldRef")) {
                default(field, json!({"apiVersion": "v1"}));
            }
            for field in each(container, "env").filter_map(|one| one.get_mut("valueFrom")?.get_mut("fileKeyRef")) {
                default(field, json!({"optional": false}));
            }
            for port in each(container, "ports") {
                default(port, json!({"protocol": "TCP"}));
            }
        }
    }
    for volume in each(spec, "volumes") {
        if let Some(volume) = volume.get_mut("downwardAPI") {
            default(volume, json!({"defaultMode": 420}));
            each(volume, "items").for_each(|item| default(&mut item["fieldRef"], json!({"apiVersion": "v1"})));
        }
    }
    template
}

#[test]
fn api_server_defaults_cause_no_edits() {
    each_injected(|file, _, injected| {
        // Skip two files that test null fields, because the API server removes null fields.
        if file == "nulls.yaml" || file == "empties.yaml" {
            return;
        }
        let done = reinject(&defaulted(injected));
        assert!(done.edits.is_empty(), "{file}: {:#?}", done.edits);
    });
}

/// Applies the changes of a service mesh, of a registry mirror and of a webhook that adds a volume to every container.
fn meshed(template: &Value) -> Value {
    let mut template = template.clone();
    let spec = &mut template["spec"];
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            default(container, json!({"env": [], "volumeMounts": []}));
            container["env"].as_array_mut().unwrap().push(json!({"name": "CLUSTER", "value": "x"}));
            container["volumeMounts"]
                .as_array_mut()
                .unwrap()
                .insert(0, json!({"name": "certs", "mountPath": "/certs"}));
            let image = container["image"].as_str().unwrap_or_default().to_owned();
            container["image"] = json!(format!("mirror.example.org/{image}"));
        }
    }
    spec["volumes"].as_array_mut().unwrap().insert(0, json!({"name": "certs", "secret": {"secretName": "certs"}}));
    spec["initContainers"].as_array_mut().unwrap().insert(0, json!({"name": "mesh-init", "image": "mesh:1"}));
    spec["containers"].as_array_mut().unwrap().insert(0, json!({"name": "mesh-proxy", "image": "mesh:1"}));
    template
}

#[test]
fn additions_of_other_webhooks_are_kept() {
    let template = templates("deployment-three-tiers.yaml").remove(0);
    let once = injected(&template).value;
    let done = reinject(&meshed(&defaulted(&once)));
    let sidecar = &done.value["spec"]["initContainers"][0];
    assert_eq!(sidecar["name"], "podgate", "the sidecar must be first again");
    assert_eq!(sidecar["image"], "mirror.example.org/ghcr.io/podgate/podgate:test");
    assert!(sidecar["env"].as_array().unwrap().iter().any(|one| one["name"] == "CLUSTER"));
    assert!(sidecar["volumeMounts"].as_array().unwrap().iter().any(|one| one["name"] == "certs"));
    assert!(sidecar["env"][0]["value"].as_str().unwrap().contains("mesh-proxy"));
    let third = reinject(&done.value);
    assert!(third.edits.is_empty(), "{:#?}", third.edits);

    let back = uninject(&done.value).unwrap().value;
    let mut expected = meshed(&defaulted(&template.clone().into_with_lists()));
    expected["spec"]["containers"][2]["startupProbe"] = template["spec"]["containers"][1]["startupProbe"].clone();
    assert_eq!(back, expected, "uninject must remove podgate's parts only");
}

/// Conversion that adds the empty lists that `meshed` fills.
trait WithLists {
    fn into_with_lists(self) -> Value;
}

impl WithLists for Value {
    fn into_with_lists(mut self) -> Value {
        self["spec"]["volumes"] = json!([]);
        self["spec"]["initContainers"] = json!([]);
        self
    }
}

#[test]
fn another_version_uses_its_own_image() {
    let template = templates("deployment-three-tiers.yaml").remove(0);
    let mut older = injected(&template).value;
    let record = older["metadata"]["annotations"]["podgate.io/injected"].as_str().unwrap();
    let record = record.replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    older["metadata"]["annotations"]["podgate.io/injected"] = json!(record);
    let done = reinject(&meshed(&older));
    assert_eq!(done.value["spec"]["initContainers"][0]["image"], "ghcr.io/podgate/podgate:test");
}

#[test]
fn injection_is_removed_with_the_declaration() {
    let template = templates("deployment-three-tiers.yaml").remove(0);
    let mut without = template.clone();
    let mut changed = injected(&template).value;
    for one in [&mut without, &mut changed] {
        one["metadata"]["annotations"].as_object_mut().unwrap().remove("podgate.io/order");
        one["metadata"]["labels"].as_object_mut().unwrap().remove("podgate.io/inject");
    }
    let done = reinject(&changed);
    assert_eq!(done.value, without);
    assert!(!done.edits.is_empty());
}

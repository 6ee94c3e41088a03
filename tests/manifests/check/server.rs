//! Objects of a cluster with podgate, as the API server returns them.

use podgate::order::inject::{Options, inject, without_nulls};
use podgate::order::plan::KnownFacts;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Returns the object of podgate's manifests at this path: `policies/NAME` or `policybindings/NAME`.
pub(crate) fn shipped_policy(path: &str) -> Option<Value> {
    let (kind, name) = path.split_once('/').unwrap();
    let texts = ["policy.yaml", "injector/unknown-containers.yaml"]
        .map(|file| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(file)).unwrap());
    let objects = texts.iter().flat_map(|text| text.split("\n---\n")).map(|text| serde_saphyr::from_str(text).unwrap());
    let is_wanted = |object: &Value| {
        let plural = object["kind"].as_str().unwrap().to_lowercase().replace("policy", "policies");
        let plural = plural.replace("policiesbinding", "policybindings");
        plural == format!("validatingadmission{kind}") && object["metadata"]["name"] == name
    };
    objects.into_iter().find(is_wanted)
}

/// Returns the Pod as podgate's webhook leaves it in a cluster. The webhook has other settings than the tool.
pub(crate) fn injected(pod: &Value) -> Value {
    let options = Options { is_from_api: true, has_fixed_user: false, ..Options::new("registry.example/podgate:1") };
    with_defaults(inject(&with_defaults(pod.clone()), &options, &KnownFacts::default()).unwrap().value)
}

/// Adds default values to a Pod, removes empty fields and sorts keys, as the API server does.
pub(crate) fn with_defaults(pod: Value) -> Value {
    let mut pod = without_nulls(&pod);
    let set = |value: &mut Value, key: &str, default: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.entry(key).or_insert(default);
        }
    };
    let probe = |value: &mut Value| {
        let fields = value.as_object_mut().unwrap();
        fields.retain(|_, value| *value != json!(0));
        for (key, default) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            fields.entry(key).or_insert(json!(default));
        }
        if let Some(get) = fields.get_mut("httpGet") {
            get.as_object_mut().unwrap().entry("scheme").or_insert(json!("HTTP"));
            get.as_object_mut().unwrap().entry("path").or_insert(json!("/"));
        }
    };
    for list in ["initContainers", "containers"] {
        for own in pod["spec"][list].as_array_mut().into_iter().flatten() {
            set(own, "terminationMessagePath", json!("/dev/termination-log"));
            set(own, "imagePullPolicy", json!("IfNotPresent"));
            set(own, "resources", json!({}));
            for field in ["startupProbe", "readinessProbe", "livenessProbe"] {
                own.get_mut(field).into_iter().for_each(probe);
            }
            for variable in own.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
                variable
                    .pointer_mut("/valueFrom/fieldRef")
                    .into_iter()
                    .for_each(|it| set(it, "apiVersion", json!("v1")));
            }
        }
    }
    for volume in pod["spec"]["volumes"].as_array_mut().into_iter().flatten() {
        volume.get_mut("downwardAPI").into_iter().for_each(|it| set(it, "defaultMode", json!(420)));
    }
    for (key, default) in
        [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("serviceAccountName", "default")]
    {
        set(&mut pod["spec"], key, json!(default));
    }
    set(&mut pod["spec"], "terminationGracePeriodSeconds", json!(30));
    pod["metadata"]["name"] = format!("{}x7k2p", pod["metadata"]["generateName"].as_str().unwrap_or("p-")).into();
    pod["status"] = json!({"phase": "Pending"});
    pod.sort_all_objects();
    pod
}

/// Reads the webhook configuration of podgate's manifests.
pub(crate) fn configuration() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/injector/webhook.yaml");
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

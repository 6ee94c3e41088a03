//! Requests and limits of podgate's sidecar.

use serde_json::{Value, json};

/// Default resources of the sidecar. The default has no CPU limit, because a limit would delay the Pod's start.
pub const DEFAULT: &str = "requests.cpu=10m,requests.memory=16Mi,limits.memory=32Mi";
/// Resources of the sidecar in a Guaranteed Pod. A lower CPU limit would delay the Pod's start.
const GUARANTEED: &str = "requests.cpu=200m,requests.memory=32Mi,limits.cpu=200m,limits.memory=32Mi";

/// Returns the help of the flag `--sidecar-resources`. The default has a line of its own, because it is long.
pub fn help() -> String {
    format!("Set the sidecar's requests and limits [default:\n{DEFAULT}]")
}

/// Names of the settings, as in a ResourceQuota.
const SETTINGS: &str = "requests.cpu, requests.memory, requests.ephemeral-storage, limits.cpu, limits.memory, \
    limits.ephemeral-storage";
/// Minimum amount of memory, in bytes. If an amount is smaller, the user probably forgot the unit.
const MIN_MEMORY: f64 = 1024.0 * 1024.0;

/// Parses settings such as `requests.cpu=10m, limits.memory=32Mi`. Returns the container field `resources`. On failure,
/// returns the reason why the API server or podgate rejects the settings.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut resources = json!({});
    for item in text.split(',') {
        let (setting, amount) = item.split_once('=').unwrap_or((item, ""));
        let (setting, amount) = (setting.trim(), amount.trim());
        let Some((kind, name)) = setting.split_once('.').filter(|_| SETTINGS.split(", ").any(|known| known == setting))
        else {
            return Err(format!("{setting:?} is not one of {SETTINGS}"));
        };
        if resources[kind].get(name).is_some() {
            return Err(format!("{setting} is set twice"));
        }
        resources[kind][name] = amount.into();
        match amount_of(&resources, kind, name) {
            None => return Err(format!("{setting} needs a quantity such as 10m, 0.5 or 16Mi, not {amount:?}")),
            Some(bytes) if name == "memory" && bytes < MIN_MEMORY => {
                return Err(format!("{setting}={amount} is less than 1Mi"));
            }
            Some(_) => {}
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let amounts = ["requests", "limits"].map(|kind| amount_of(&resources, kind, name));
        if let [Some(request), Some(limit)] = amounts
            && request > limit
        {
            return Err(format!("requests.{name} is greater than limits.{name}"));
        }
    }
    Ok(resources)
}

/// Returns the sidecar's resources for `template`, which has no sidecar yet. In a Guaranteed Pod, the resources keep
/// the QoS class. Most other Pods get `default`. Returns null for a Pod with Pod-level resources (Kubernetes 1.34),
/// because all containers share these resources.
pub(crate) fn default_for(template: &Value, default: &Value) -> Value {
    if has_shared_resources(template) {
        Value::Null
    } else if is_guaranteed_pod(template) && !is_guaranteed(default) {
        parse(GUARANTEED).unwrap_or_default()
    } else {
        default.clone()
    }
}

/// Returns true if the template has Pod-level resources, which then determine the QoS class.
fn has_shared_resources(template: &Value) -> bool {
    let shared = &template["spec"]["resources"];
    ["requests", "limits"].iter().any(|kind| shared[kind].as_object().is_some_and(|amounts| !amounts.is_empty()))
}

/// Returns true if the Pod has the QoS class Guaranteed because of the resources of its containers.
/// <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/#guaranteed>
fn is_guaranteed_pod(template: &Value) -> bool {
    let lists = ["containers", "initContainers"].map(|list| template["spec"][list].as_array());
    let mut containers = lists.into_iter().flatten().flatten();
    !has_shared_resources(template) && containers.all(|container| is_guaranteed(&container["resources"]))
}

/// Returns true if `resources` has limits for CPU and memory, and equal requests. Missing requests count as equal,
/// because the API server sets them to the limits.
fn is_guaranteed(resources: &Value) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let [limit, request] = ["limits", "requests"].map(|kind| amount_of(resources, kind, name));
        let is_equal = |limit: f64| request.is_none_or(|request| (request - limit).abs() <= limit * 1e-9);
        limit.is_some_and(|limit| limit > 0.0 && is_equal(limit))
    })
}

fn amount_of(resources: &Value, kind: &str, name: &str) -> Option<f64> {
    match &resources[kind][name] {
        Value::String(text) => parse_quantity(text),
        number => number.as_f64(),
    }
}

/// Parses a quantity such as `10m`, `0.5` or `16Mi`. Returns `None` if `text` is not a quantity or is negative.
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>
fn parse_quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let position = |known: &[&str]| known.iter().zip(0..).find(|(known, _)| **known == suffix).map(|(_, at)| at);
    let factor = if let Some(at) = position(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]) {
        10_f64.powi(3 * (at - 3))
    } else if let Some(at) = position(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
        1024_f64.powi(at + 1)
    } else {
        10_f64.powi(suffix.strip_prefix(['e', 'E'])?.parse().ok()?)
    };
    Some(number.parse::<f64>().ok()? * factor)
}

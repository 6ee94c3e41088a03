//! Creates many Pods at the same time on a real kubelet. Shared by benchmarks.

use crate::cluster::{self, kubectl, run_script, try_kubectl};
use crate::{clock, three};
use serde_json::{Value, json};
use std::time::Duration;

/// Parts of the node whose processor time is measured, as in [`three::processor_time`]. The time of an ended process
/// counts for its parent.
pub(crate) const PARTS: [&str; 5] = ["kubelet", "containerd", "shim", "podgate", "container"];

/// Creates `count` copies of `pod` at the same time, and waits until all are Ready. Returns the seconds until all are
/// Ready, the Events per Pod, and the node's processor time in seconds: first the total, then the time of each part of
/// [`PARTS`].
pub(crate) fn start(namespace: &str, pod: &Value, count: usize) -> [f64; 8] {
    end(namespace);
    run_script(&["namespace", namespace]);
    let group = format!("--group=system:serviceaccounts:{namespace}");
    kubectl(&["-n", namespace, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    std::thread::sleep(Duration::from_secs(3));
    let named = |number: usize| {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..count).map(named).collect::<Vec<_>>()});
    let (before, since) = (three::processor_time(), clock::wall_ms());
    cluster::create(namespace, &list.to_string());
    kubectl(&["-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=300s"]);
    let (took, after) = ((clock::wall_ms() - since) / 1000.0, three::processor_time());
    let used = PARTS.map(|part| (after.get(part).unwrap_or(&0.0) - before.get(part).unwrap_or(&0.0)) / 1000.0);
    std::thread::sleep(Duration::from_secs(3));
    let events = kubectl(&["-n", namespace, "get", "events", "-o", "json"]);
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let events: u64 =
        events["items"].as_array().expect("a list").iter().map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    let [kubelet, containerd, shims, podgate, containers] = used;
    [took, events as f64 / count as f64, used.iter().sum(), kubelet, containerd, shims, podgate, containers]
}

pub(crate) fn end(namespace: &str) {
    let _ = try_kubectl(&["delete", "namespace", namespace, "--wait=true"]);
}

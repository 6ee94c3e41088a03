//! Measures on a real kubelet the processor time that waiting Pods cost the node, in milliseconds per second and Pod.
//! The benchmark shows the time of the kubelet, containerd, the shims, podgate and the other containers. Each Pod has
//! the containers `db`, `api` and `web`, and `db` never becomes Ready.
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench waiting-pods [-- SECONDS [WORDS...]]
//! ```
//!
//! WORDS limit the benchmark to rows whose label contains one of these words.

#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/clock.rs"]
mod clock;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../tests/kubelet/pod.rs"]
mod pod;
mod three;

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use clock::eventually;
use cluster::{kubectl, run_script, try_kubectl};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use three::processor_time;

const NAMESPACE: &str = "bench-waiting";
const PODS: usize = 8;
/// Time after the last container's start until the node is quiet.
const SETTLE_TIME: Duration = Duration::from_secs(15);

fn main() {
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let seconds = words.first().map_or(60, |word| word.parse().expect("a number"));
    cluster::install_manifests();
    println!(
        "Kubernetes 1.{}, {PODS} Pods, {seconds} s; ms of processor time per second and Pod",
        cluster::minor_version()
    );
    let idle = measure(&Value::Null, seconds);
    for (label, pod) in three::pods("1h", words.get(1..).unwrap_or_default()) {
        let cost = measure(&pod, seconds);
        let part = |kind: &str| (cost.get(kind).unwrap_or(&0.0) - idle.get(kind).unwrap_or(&0.0)) / PODS as f64;
        let [kubelet, containerd, shims, podgate, containers] =
            ["kubelet", "containerd", "shim", "podgate", "container"].map(part);
        println!(
            "  {label:<48} {:>6.1}   kubelet {kubelet:.1}, containerd {containerd:.1}, shims and runc {shims:.1}, podgate {podgate:.1}, other containers {containers:.1}",
            kubelet + containerd + shims + podgate + containers
        );
    }
}

/// Creates the Pods, and returns the processor time of each kind of process, in milliseconds per second.
fn measure(pod: &Value, seconds: u64) -> BTreeMap<&'static str, f64> {
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    for number in (0..PODS).filter(|_| !pod.is_null()) {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        cluster::create(NAMESPACE, &pod.to_string());
    }
    for number in (0..PODS).filter(|_| !pod.is_null()) {
        eventually("db runs", 120, || cluster::pid(NAMESPACE, &format!("pod-{number}"), "db"));
    }
    std::thread::sleep(SETTLE_TIME);
    let before = processor_time();
    std::thread::sleep(Duration::from_secs(seconds));
    let after = processor_time();
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    after.into_iter().map(|(kind, ms)| (kind, (ms - before.get(kind).unwrap_or(&0.0)) / seconds as f64)).collect()
}

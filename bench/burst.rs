//! Measures on a real kubelet how long it takes until Pods that are created at once are all Ready, and what that costs
//! the node.
//!
//! ```text
//! tests/kubelet/prepare && cargo bench --bench burst [-- ROUNDS [PODS [WORDS...]]]
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

/// Prints messages of the cluster's helpers to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use cluster::{kubectl, run_script, try_kubectl};
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACE: &str = "bench-burst";

/// Parts of the node, as in [`three::processor_time`]. The time of a process that has ended belongs to its parent.
const PARTS: [&str; 5] = ["kubelet", "containerd", "shim", "podgate", "container"];

struct Row {
    label: &'static str,
    pod: Value,
    /// For each round: seconds until all Pods were Ready, Events per Pod, and the node's processor time in seconds: in
    /// all, then of each part of [`PARTS`].
    rounds: Vec<[f64; 8]>,
}

fn main() {
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |at: usize, default| words.get(at).map_or(default, |word| word.parse().expect("a number"));
    let (rounds, count) = (number(0, 3), number(1, 30));
    cluster::install_manifests();
    let rows = three::pods("100ms", words.get(2..).unwrap_or_default());
    let mut rows: Vec<Row> = rows.into_iter().map(|(label, pod)| Row { label, pod, rounds: Vec::new() }).collect();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for row in &mut rows {
            row.rounds.push(start(&row.pod, count));
        }
    }
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    println!(
        "Kubernetes 1.{}, {count} Pods at once, medians of {rounds} rounds, interleaved",
        cluster::minor_version()
    );
    for row in &rows {
        let median = |at: usize| {
            let mut values: Vec<f64> = row.rounds.iter().map(|round| round[at]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let parts: Vec<String> =
            PARTS.iter().enumerate().map(|(at, part)| format!("{part} {:.1}", median(at + 3))).collect();
        println!(
            "  {:<44} {:>5.1} s until Ready, {:>4.1} Events for each Pod, {:>5.1} s of processor time ({})",
            row.label,
            median(0),
            median(1),
            median(2),
            parts.join(", ")
        );
    }
}

fn start(pod: &Value, count: usize) -> [f64; 8] {
    let _ = try_kubectl(&["delete", "namespace", NAMESPACE, "--wait=true"]);
    run_script(&["namespace", NAMESPACE]);
    let group = format!("--group=system:serviceaccounts:{NAMESPACE}");
    kubectl(&["-n", NAMESPACE, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    std::thread::sleep(Duration::from_secs(3));
    let named = |number: usize| {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..count).map(named).collect::<Vec<_>>()});
    let (before, since) = (three::processor_time(), clock::wall_ms());
    cluster::create(NAMESPACE, &list.to_string());
    kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=300s"]);
    let (took, after) = ((clock::wall_ms() - since) / 1000.0, three::processor_time());
    let used = PARTS.map(|part| (after.get(part).unwrap_or(&0.0) - before.get(part).unwrap_or(&0.0)) / 1000.0);
    std::thread::sleep(Duration::from_secs(3));
    let events = kubectl(&["-n", NAMESPACE, "get", "events", "-o", "json"]);
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let events: u64 =
        events["items"].as_array().expect("a list").iter().map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    let [kubelet, containerd, shims, podgate, containers] = used;
    [took, events as f64 / count as f64, used.iter().sum(), kubelet, containerd, shims, podgate, containers]
}

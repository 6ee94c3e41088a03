//! Creates many Pods at the same time on a real kubelet. Shared by benchmarks.

use crate::cluster::{self, kubectl, run_script, try_kubectl};
use crate::quantile::median;
use crate::{clock, three};
use serde_json::{Value, json};
use std::time::Duration;

/// Parts of the node whose processor time is measured, as in [`three::processor_time`]. The time of an ended process
/// counts for its parent.
const PARTS: [&str; 7] = ["API server", "etcd", "kubelet", "containerd", "shim", "podgate", "container"];

/// Results for one kind of Pod: of one round, or the medians of all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Seconds until all Pods are Ready.
    pub(crate) ready: f64,
    /// Events for each Pod.
    events: f64,
    /// Processor time of all [`PARTS`] in seconds.
    pub(crate) processor: f64,
    /// Processor time of each of [`PARTS`] in seconds.
    parts: [f64; PARTS.len()],
}

/// In each of `rounds` rounds, starts `count` copies of each Pod of [`three::pods`], one kind of Pod after another.
/// `words` selects the kinds. Prints and returns the medians for each kind.
pub(crate) fn measure(namespace: &str, rounds: usize, count: usize, words: &[String]) -> Vec<Outcome> {
    let rows = three::pods("100ms", words);
    let mut outcomes = vec![Vec::new(); rows.len()];
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        let mut kinds: Vec<_> = rows.iter().zip(&mut outcomes).collect();
        // Reverse the order in every second round, so that a slow change of the node affects all kinds equally.
        if round % 2 == 0 {
            kinds.reverse();
        }
        for ((label, pod), outcomes) in kinds {
            let outcome = start(namespace, pod, count);
            let Outcome { ready, processor, .. } = outcome;
            eprintln!("  {label:<48} {ready:>5.1} s until Ready, {processor:>5.1} s of processor time");
            outcomes.push(outcome);
        }
    }
    end(namespace);
    println!(
        "Kubernetes 1.{}, {count} Pods at once, medians of {rounds} rounds, interleaved",
        cluster::minor_version()
    );
    let medians: Vec<Outcome> = outcomes.iter().map(|outcomes| medians(outcomes)).collect();
    for ((label, _), Outcome { ready, events, processor, parts }) in rows.iter().zip(&medians) {
        let parts: Vec<String> = PARTS.iter().zip(parts).map(|(part, used)| format!("{part} {used:.1}")).collect();
        println!(
            "  {label:<48} {ready:>5.1} s until Ready, {events:>4.1} Events for each Pod, {processor:>5.1} s of processor \
             time ({})",
            parts.join(", ")
        );
    }
    medians
}

fn medians(outcomes: &[Outcome]) -> Outcome {
    let median = |value: &dyn Fn(&Outcome) -> f64| median(&outcomes.iter().map(value).collect::<Vec<_>>());
    Outcome {
        ready: median(&|outcome| outcome.ready),
        events: median(&|outcome| outcome.events),
        processor: median(&|outcome| outcome.processor),
        parts: std::array::from_fn(|at| median(&|outcome| outcome.parts[at])),
    }
}

/// Creates `count` copies of `pod` at the same time, and waits until all are Ready.
fn start(namespace: &str, pod: &Value, count: usize) -> Outcome {
    end(namespace);
    run_script(&["namespace", namespace]);
    let group = format!("--group=system:serviceaccounts:{namespace}");
    kubectl(&["-n", namespace, "create", "rolebinding", "podgate", "--clusterrole=podgate-sidecar", &group]);
    wait_until_idle();
    let named = |number: usize| {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..count).map(named).collect::<Vec<_>>()});
    let (before, since) = (three::processor_time(), clock::wall_ms());
    cluster::create(namespace, &list.to_string());
    kubectl(&["-n", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=300s"]);
    let (ready, after) = ((clock::wall_ms() - since) / 1000.0, three::processor_time());
    let parts = PARTS.map(|part| (after.get(part).unwrap_or(&0.0) - before.get(part).unwrap_or(&0.0)) / 1000.0);
    std::thread::sleep(Duration::from_secs(3));
    let events = kubectl(&["-n", namespace, "get", "events", "-o", "json"]);
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let events: u64 =
        events["items"].as_array().expect("a list").iter().map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    Outcome { ready, events: events as f64 / count as f64, processor: parts.iter().sum(), parts }
}

/// Waits until the node has finished its work for the Pods of the last round. containerd removes them for up to 20 s,
/// and this time must not count for the next row.
fn wait_until_idle() {
    let used = || three::processor_time().values().sum::<f64>();
    for _ in 0..60 {
        let before = used();
        std::thread::sleep(Duration::from_secs(2));
        // The processes of a node without new Pods use about 0.1 s of processor time in 2 s.
        if used() - before < 300.0 {
            return;
        }
    }
    panic!("the node is not idle two minutes after the last round");
}

fn end(namespace: &str) {
    let _ = try_kubectl(&["delete", "namespace", namespace, "--wait=true"]);
}

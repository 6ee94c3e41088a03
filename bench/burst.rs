//! Creates many Pods at the same time on a real kubelet. Measures the time until all are Ready, and the cost for the
//! node.
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
mod pods_at_once;
mod three;

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use pods_at_once::PARTS;
use serde_json::Value;

const NAMESPACE: &str = "bench-burst";

struct Row {
    label: &'static str,
    pod: Value,
    /// Results of each round, as in [`pods_at_once::start`].
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
            let results = pods_at_once::start(NAMESPACE, &row.pod, count);
            eprintln!("  {:<44} {:>5.1} s until Ready", row.label, results[0]);
            row.rounds.push(results);
        }
    }
    pods_at_once::end(NAMESPACE);
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

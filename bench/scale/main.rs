//! Measures podgate at scale, and fails if a result leaves its range in `bench/scale/ranges`. Each time is compared
//! with a time of the same run, because machines differ.
//!
//! ```text
//! make scale [PARTS="admissions=10000 sidecars=1000 burst=100"]
//! ```

mod admissions;
mod allow_all;
mod api;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/webhook/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../../tests/kubelet/clock.rs"]
mod clock;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../../tests/kubelet/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with the scenarios")]
#[path = "../../tests/kubelet/pod.rs"]
mod pod;
#[path = "../pods_at_once.rs"]
mod pods_at_once;
#[path = "../quantile.rs"]
mod quantile;
#[path = "../shop.rs"]
mod shop;
mod sidecars;
mod storm;
#[path = "../three.rs"]
mod three;

/// Replaces the module `program` of the webhook's tests, from which `client` imports the constant.
mod program {
    /// Name in the certificate of the API server.
    pub(crate) const NAME: &str = "kubernetes";
}

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

use std::process::ExitCode;

/// Names and values of results.
pub(crate) type Results = Vec<(&'static str, f64)>;

/// Name, default number of Pods, and function of a part of the benchmark.
type Part = (&'static str, usize, fn(usize) -> Results);

const PARTS: [Part; 3] =
    [("admissions", 10_000, admissions::measure), ("sidecars", 1000, sidecars::measure), ("burst", 100, burst)];

fn main() -> ExitCode {
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if words.first().is_some_and(|word| word == allow_all::ARGUMENT) {
        allow_all::serve();
        return ExitCode::FAILURE;
    }
    assert!(cluster::is_test_cluster(), "needs the test cluster: unset KUBECONFIG");
    let mut parts: Vec<(Part, usize)> = Vec::new();
    for word in &words {
        let (name, count) = word.split_once('=').unwrap_or((word, ""));
        let part = PARTS.into_iter().find(|part| part.0 == name);
        let part = part.unwrap_or_else(|| panic!("{name}: no such part; there are admissions, sidecars and burst"));
        parts.push((part, if count.is_empty() { part.1 } else { count.parse().expect("a number of Pods") }));
    }
    if parts.is_empty() {
        parts = PARTS.map(|part| (part, part.1)).to_vec();
    }
    cluster::install_manifests();
    let mut is_good = true;
    for ((name, _, measure), count) in parts {
        eprintln!("{name}: {count} Pods");
        let results = measure(count);
        println!("{name}, {count} Pods, Kubernetes 1.{}", cluster::minor_version());
        for (name, value) in results {
            is_good &= is_in_range(name, value);
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a result and its range. Returns false if the result is outside the range.
fn is_in_range(name: &str, value: f64) -> bool {
    let line = include_str!("ranges").lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in bench/scale/ranges"));
    let [_, low, high, unit] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}: not a range") };
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|error| panic!("{line}: {error}"));
    let is_inside = (number(low)..=number(high)).contains(&value);
    let verdict = if is_inside { "" } else { "  OUT OF RANGE" };
    println!("  {name:<40} {value:>9.2} {unit:<14} ({low} to {high}){verdict}");
    is_inside
}

/// Creates many Pods at the same time on the real node: with native sidecars, and with podgate. Kubernetes mounts a token
/// into each container, as it does by default. Uses medians of three rounds.
fn burst(count: usize) -> Results {
    let outcomes = pods_at_once::measure("bench-scale", 3, count, &["with tokens".to_owned()]);
    let [native, podgate] = &outcomes[..] else { panic!("expected two rows") };
    vec![("burst-ready", podgate.ready / native.ready), ("burst-processor-time", podgate.processor / native.processor)]
}

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
mod quantile;
mod three;

/// Replaces the tests' module `scene`, through which the module `cluster` prints messages. Prints to standard error.
mod scene {
    pub(crate) fn print_line(line: &str) {
        eprintln!("{line}");
    }
}

fn main() {
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |at: usize, default| words.get(at).map_or(default, |word| word.parse().expect("a number"));
    let (rounds, count) = (number(0, 3), number(1, 30));
    cluster::install_manifests();
    pods_at_once::measure("bench-burst", rounds, count, words.get(2..).unwrap_or_default());
}

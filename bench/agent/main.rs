//! Measures the resource usage of the agent and the time until the agent releases a container, compared with equivalent
//! scripts.
//!
//! ```text
//! cargo bench --no-default-features --bench agent [-- --rounds 300 --seconds 60 --publications 100000]
//! ```
//!
//! Builds and measures the static binary that is released. Prints Markdown tables for `bench/RESULTS.md`.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod latency;
mod lost;
mod scene;
mod waiting;

use scene::Method;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == lost::WAITER) {
        return lost::wait_for_all(Path::new(&arguments[at + 1]), arguments[at + 2].parse().unwrap());
    }
    let number = |flag: &str, default: usize| {
        let at = arguments.iter().position(|argument| argument == flag);
        at.map_or(default, |at| arguments[at + 1].parse().expect("a number"))
    };
    let agent = build();
    println!("## Size\n");
    let bytes = std::fs::metadata(&agent).unwrap().len();
    println!("| | bytes |\n|---|---:|\n| `podgate`, static ({TARGET}), stripped | {bytes} |\n");
    let methods: Vec<Method> = scene::ALL.into_iter().filter(|method| method.is_available()).collect();
    waiting::table(&agent, &methods, number("--seconds", 60));
    latency::tables(&agent, &methods, number("--rounds", 300));
    lost::table(number("--publications", 100_000));
}

/// Builds the agent like a release. Returns the path of the binary.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let root = env!("CARGO_MANIFEST_DIR");
    let arguments =
        ["build", "--quiet", "--no-default-features", "--profile", "agent", "--bin", "podgate", "--target", TARGET];
    let status = Command::new(cargo).args(arguments).current_dir(root).status().unwrap();
    assert!(status.success(), "the agent does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(root).join("target"), PathBuf::from);
    target.join(TARGET).join("agent/podgate")
}

//! Latency from publication to release, and from exec to the first log line.

use crate::scene::{Means, Scene};
use podgate::core::state::State;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn tables(agent: &Path, available: &[Means], rounds: usize) {
    println!("## From the publication to the waiter's process being gone, {rounds} rounds\n");
    println!("| means | median, ms | 95th percentile, ms | longest, ms |\n|---|---:|---:|---:|");
    for &means in available {
        // Each takes half a second on average, so limit the rounds.
        let rounds = if means == Means::Loop("1") { rounds.min(100) } else { rounds };
        row(&means.name(), (0..rounds).map(|round| release(agent, means, round)).collect());
    }
    println!("\n## From exec to the first line of the log, {rounds} rounds\n");
    println!("| | median, ms | 95th percentile, ms | longest, ms |\n|---|---:|---:|---:|");
    row("`podgate post-start`", (0..rounds).map(|_| first_line(agent)).collect());
    println!();
}

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("| {name} | {:.2} | {:.2} | {:.2} |", at(50), at(95), at(100));
}

/// Measures from just before the sidecar writes the new annotations, which it renames into place microseconds later.
fn release(agent: &Path, means: Means, round: usize) -> Duration {
    let mut scene = Scene::new(means);
    let mut child = scene.start(agent, means);
    // Cover all phases of a loop's period, but publish only after the waiter has gone to sleep.
    let spread = if means == Means::Loop("1") { 1000 } else { 100 };
    std::thread::sleep(Duration::from_millis(5 + u64::try_from(round * 37 % spread).unwrap()));
    let begun = scene.publish(State::Ready);
    let status = child.wait().unwrap();
    let elapsed = begun.elapsed();
    assert!(status.success(), "{}: {status}", means.name());
    elapsed
}

fn first_line(agent: &Path) -> Duration {
    let scene = Scene::new(Means::Bell);
    let begun = Instant::now();
    let mut child = std::process::Command::new(agent)
        .args(["post-start", "--container", "db", "--log-to", "/proc/self/fd/2", "--board"])
        .arg(&scene.board)
        .args(["--self", "/nonexistent", "--podinfo", "/nonexistent", "--termination-log", "/nonexistent"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let elapsed = begun.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    elapsed
}

//! Measures two times: from the publication of a state to the waiter's exit, and from exec to the first log line.

use crate::scene::{Method, Scene};
use podgate::core::state::State;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn tables(agent: &Path, methods: &[Method], rounds: usize) {
    println!("## From the publication to the waiter's exit, {rounds} rounds\n");
    println!("| method | median, ms | 95th percentile, ms | longest, ms |\n|---|---:|---:|---:|");
    for &method in methods {
        // Run fewer rounds of this method, because each round takes half a second on average.
        let rounds = if method == Method::Loop("1") { rounds.min(100) } else { rounds };
        row(&method.name(), (0..rounds).map(|round| release(agent, method, round)).collect());
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

/// Measures the time from a publication to the waiter's exit. The time starts just before the new file is written, some
/// microseconds before the rename that publishes the file.
fn release(agent: &Path, method: Method, round: usize) -> Duration {
    let mut scene = Scene::new(method);
    let mut child = scene.start(agent, method);
    // Spread the publications over the whole period of a loop, but publish only after the waiter sleeps.
    let spread = if method == Method::Loop("1") { 1000 } else { 100 };
    std::thread::sleep(Duration::from_millis(5 + u64::try_from(round * 37 % spread).unwrap()));
    let begun = scene.publish(State::Ready);
    let status = child.wait().unwrap();
    let took = begun.elapsed();
    assert!(status.success(), "{}: {status}", method.name());
    took
}

fn first_line(agent: &Path) -> Duration {
    let scene = Scene::new(Method::Bell);
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
    let took = begun.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    took
}

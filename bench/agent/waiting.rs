//! Cost of waiting.

use crate::scene::{Means, Scene};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// Prints memory, threads and wake-ups of each means while nothing happens.
pub(crate) fn table(agent: &Path, available: &[Means], seconds: usize) {
    println!("## While waiting, {seconds} s without an event\n");
    println!("| means | anonymous memory, kB | threads | wake-ups a minute |\n|---|---:|---:|---:|");
    let start = |means: &Means| {
        let means = *means;
        let scene = Scene::new(means);
        let child = scene.start(agent, means);
        (means, scene, child)
    };
    let mut all: Vec<(Means, Scene, Child)> = available.iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(500));
    let sleeps = |child: &Child| field(child.id(), "voluntary_ctxt_switches:");
    let before: Vec<u64> = all.iter().map(|(_, _, child)| sleeps(child)).collect();
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).unwrap()));
    for ((means, _, child), before) in all.iter().zip(before) {
        let a_minute = (sleeps(child) - before) * 60 / u64::try_from(seconds.max(1)).unwrap();
        // A shell waits in child processes; include theirs.
        let family = || [child.id()].into_iter().chain(children(child.id()));
        let memory: u64 = family().map(|id| field(id, "RssAnon:")).sum();
        let threads: u64 = family().map(|id| field(id, "Threads:")).sum();
        println!("| {} | {memory} | {threads} | {a_minute} |", means.name());
    }
    println!();
    for (_, _, child) in &mut all {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn field(id: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

fn children(id: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    list.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

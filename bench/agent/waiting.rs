//! Measures the resource usage of each method while it waits.

use crate::scene::{Method, Scene};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// Prints memory, threads and wake-ups of each method while nothing happens.
pub(crate) fn table(agent: &Path, methods: &[Method], seconds: usize) {
    println!("## While waiting, {seconds} s without an event\n");
    println!("| method | anonymous memory, kB | threads | wake-ups per minute |\n|---|---:|---:|---:|");
    let start = |method: &Method| {
        let method = *method;
        let scene = Scene::new(method);
        let child = scene.start(agent, method);
        (method, scene, child)
    };
    let mut all: Vec<(Method, Scene, Child)> = methods.iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(500));
    let sleeps = |child: &Child| field(child.id(), "voluntary_ctxt_switches:");
    let before: Vec<u64> = all.iter().map(|(_, _, child)| sleeps(child)).collect();
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).unwrap()));
    for ((method, _, child), before) in all.iter().zip(before) {
        let per_minute = (sleeps(child) - before) * 60 / u64::try_from(seconds.max(1)).unwrap();
        // A shell waits in child processes, so include their memory and threads.
        let family = || [child.id()].into_iter().chain(children(child.id()));
        let memory: u64 = family().map(|id| field(id, "RssAnon:")).sum();
        let threads: u64 = family().map(|id| field(id, "Threads:")).sum();
        println!("| {} | {memory} | {threads} | {per_minute} |", method.name());
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

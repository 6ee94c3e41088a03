//! Counts lost wake-ups with one publisher and twenty waiters. Each waiter is a process that runs the agent's own loop:
//! arm, read, sleep.
//!
//! A publication is lost if a waiter sleeps until the slow re-read, after 1 s ([`REREAD_INTERVAL_MIN`]), although the
//! board has a newer revision. After a random half of the publications the publisher waits until all waiters have
//! answered. After the other half, the publisher continues within 128 µs, so that publications hit every point of the
//! loop.

use crate::scene::{Method, Scene};
use podgate::core::snapshot::Snapshot;
use podgate::core::sources::{PodView, choose_view};
use podgate::core::state::State;
use podgate::edge::sandbox::sandbox_id;
use podgate::edge::source;
use podgate::edge::watch::{REREAD_INTERVAL_MIN, WakeReason, Watch};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes this program run as a waiter.
pub(crate) const WAITER: &str = "--waiter";
const WAITERS: usize = 20;

pub(crate) fn table(publications: usize) {
    println!("## {publications} publications to {WAITERS} waiters\n");
    println!(
        "| method | read by each of the 20 waiters | median until all have read it, ms | longest, ms | lost |\n|---|---:|---:|---:|---:|"
    );
    for (method, publications) in [(Method::Bell, publications), (Method::Inotify, publications / 10)] {
        let mut scene = Scene::new(method);
        let last = publications + 1;
        let mut waiters: Vec<Child> = (0..WAITERS).map(|_| start(&scene.board, last)).collect();
        let mut seen = vec![0u64; WAITERS];
        let mut times = Vec::new();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        wait_until_read(&mut waiters, &mut seen, 1);
        for revision in 2..=last {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let begun = scene.publish(State::Started);
            if random.is_multiple_of(2) || revision == last {
                wait_until_read(&mut waiters, &mut seen, u64::try_from(revision).unwrap());
                times.push(begun.elapsed());
            } else {
                let pause = Duration::from_micros(random >> 3 & 127);
                while begun.elapsed() < pause {
                    std::hint::spin_loop();
                }
            }
        }
        let lost: u64 = waiters.iter_mut().map(lost).sum();
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, longest) = (ms(times[times.len() / 2]), ms(times[times.len() - 1]));
        println!("| {} | {} of {publications} | {median:.2} | {longest:.1} | {lost} |", method.name(), times.len());
    }
    println!();
}

fn start(board: &Path, last: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(WAITER).arg(board).arg(last.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns when every waiter has read `revision`.
fn wait_until_read(waiters: &mut [Child], seen: &mut [u64], revision: u64) {
    for (waiter, seen) in waiters.iter_mut().zip(seen) {
        while *seen < revision {
            *seen = number(waiter);
        }
    }
}

/// Returns the number of publications that this waiter has lost.
fn lost(waiter: &mut Child) -> u64 {
    let lost = number(waiter);
    assert!(waiter.wait().unwrap().success());
    lost
}

fn number(waiter: &mut Child) -> u64 {
    let mut bytes = [0; 8];
    waiter.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Runs a waiter. The waiter prints each revision that it reads, and at the end the number of lost publications.
pub(crate) fn wait_for_all(board: &Path, last: u64) {
    let here = sandbox_id();
    let mut watch = Watch::new(board.to_owned(), None);
    let mut out = std::io::stdout();
    let mut print = |number: u64| {
        out.write_all(&number.to_ne_bytes()).unwrap();
        out.flush().unwrap();
    };
    let (mut read, mut lost, mut woken, mut slept) = (0, 0, WakeReason::Source, Instant::now());
    while read < last {
        let view = watch.read(|| choose_view(&here, source::read_board(board), || None));
        let PodView::Snapshot(Snapshot { revision, .. }, _) = view else { panic!("{view:?}") };
        if revision > read {
            // A publication that arrives exactly at the timeout also counts, because the waiter cannot distinguish this
            // publication from a lost one.
            lost += u64::from(woken == WakeReason::NoEvent && slept.elapsed() >= REREAD_INTERVAL_MIN);
            read = revision;
            print(revision);
        }
        if read < last {
            slept = Instant::now();
            woken = watch.wait(REREAD_INTERVAL_MIN, Vec::new()).unwrap();
        }
    }
    print(lost);
}

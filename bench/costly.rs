//! Searches for the most expensive Pods, and measures small reviews during a flood of such Pods.

#[path = "../tests/common/costly_pods.rs"]
mod costly_pods;

use crate::client::Client;
use crate::{Webhook, exchange, now, print_latencies, request};
use costly_pods::{COSTLY, format, is_too_large, mutate, parse, pod, review};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Pods from which the search starts, in addition to the known expensive Pods.
const STARTS: &[&str] = &[
    "",
    "containers=71 order_names=71 order_kind=2 wide=71",
    "containers=100 order_names=100 order_kind=1 wide=100 injected=2",
    "containers=200 inits=200 order_names=200 order_kind=4 name_length=63 name_kind=2 wide=200",
    "containers=15 order_names=15 wide=15 words=900",
    "containers=60 order_names=60 wide=60 checks=64 mounts=90",
];
/// Number of unsuccessful changes after which the search continues with the next starting Pod.
const STUCK: usize = 150;
/// Maximum size of a review in the search, in bytes. The webhook has the same limit for a request.
const BODY_MAX: usize = 4 << 20;
/// Number of clients that send expensive Pods.
const CLIENTS: usize = 8;
/// Interval between small reviews.
const INTERVAL: Duration = Duration::from_millis(100);

/// Measures each known expensive Pod, then searches for more expensive Pods for `seconds`. The search changes some
/// properties of a Pod, and keeps a change that raises the webhook's processor time. Prints a result for each starting
/// Pod.
pub(crate) fn search(webhook: &Webhook, client: &Client, seconds: u64) {
    let mut connection = client.connect().expect("a connection");
    let mut cost = |body: &[u8]| {
        let mut once = || {
            let before = webhook.processor_ms();
            exchange(&mut connection, &request(body));
            webhook.processor_ms() - before
        };
        // Use the lower of two times, because other programs disturb the caches.
        once().min(once())
    };
    for numbers in COSTLY {
        let body = review(&pod(&parse(numbers)));
        println!("{:7.1} ms, {:7} bytes: {numbers}", cost(&body), body.len());
    }
    let end = now() + Duration::from_secs(seconds);
    let mut state = u64::from(std::process::id()) << 20 | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for start in STARTS.iter().chain(COSTLY).cycle() {
        let (mut numbers, mut most, mut stuck) = (parse(start), 0.0, 0);
        while stuck < STUCK && now() < end {
            let mut next = numbers.clone();
            if most > 0.0 {
                mutate(&mut next, &mut random);
            }
            let body = if is_too_large(&next) { Vec::new() } else { review(&pod(&next)) };
            stuck += 1;
            if body.is_empty() || body.len() > BODY_MAX {
                continue;
            }
            let time = cost(&body);
            if time > most * 1.02 {
                (numbers, most, stuck) = (next, time, 0);
            }
        }
        println!("{most:7.1} ms: {}", format(&numbers));
        if now() >= end {
            return;
        }
    }
}

/// Sends expensive Pods from [`CLIENTS`] connections as fast as the webhook answers, and measures small reviews.
pub(crate) fn flood(webhook: &Webhook, client: &Client, small: &str, seconds: u64) {
    let requests: Vec<Vec<u8>> = COSTLY.iter().map(|numbers| request(&review(&pod(&parse(numbers))))).collect();
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for first in 0..CLIENTS {
            let (requests, is_over, answered) = (&requests, &is_over, &answered);
            scope.spawn(move || {
                let mut connection = client.connect().expect("a connection");
                for request in requests.iter().cycle().skip(first) {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    exchange(&mut connection, request);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut connection, mut times, mut failed) = (client.connect().expect("a connection"), Vec::new(), 0);
        let (start, request) = (now(), request(small.as_bytes()));
        while start.elapsed() < Duration::from_secs(seconds) {
            let since = now();
            failed += usize::from(!exchange(&mut connection, &request).contains("\"patch\":"));
            times.push(since.elapsed());
            std::thread::sleep(INTERVAL);
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{CLIENTS} clients with expensive Pods: {} answers in {seconds} s", answered.load(Ordering::Relaxed));
        println!("small reviews: {}, of which {failed} were not injected", times.len());
        print_latencies(&mut times);
        println!("peak of the resident memory: {} KiB", webhook.peak());
    });
}

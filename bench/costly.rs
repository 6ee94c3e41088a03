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

/// Cost of one review, in the units of [`GOALS`].
type Cost = [f64; 3];

/// What the search maximizes, one after the other.
const GOALS: [&str; 3] = ["ms", "KiB of answer", "KiB of memory"];

/// Measures each known expensive Pod, then searches for more expensive Pods for `seconds`. The search changes some
/// properties of a Pod, and keeps a change that raises the cost. Each goal has a third of the time. Prints the result for
/// each starting Pod.
pub(crate) fn search(webhook: &Webhook, client: &Client, seconds: u64) {
    let mut connection = client.connect().expect("a connection");
    let mut cost = |body: &[u8]| -> Cost {
        let mut once = || {
            webhook.reset_peak();
            let before = webhook.processor_ms();
            let answer = exchange(&mut connection, &request(body)).len();
            [webhook.processor_ms() - before, answer as f64 / 1024.0, webhook.peak() as f64]
        };
        // Use the lower of two times, because other programs disturb the caches.
        let (first, second) = (once(), once());
        std::array::from_fn(|n| first[n].min(second[n]))
    };
    let line = |cost: Cost| {
        let parts = cost.iter().zip(GOALS).map(|(number, unit)| format!("{number:8.1} {unit}"));
        parts.collect::<Vec<_>>().join(", ")
    };
    for numbers in COSTLY {
        let body = review(&pod(&parse(numbers)));
        println!("{}, {:7} bytes: {numbers}", line(cost(&body)), body.len());
    }
    let mut state = u64::from(std::process::id()) << 20 | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for (goal, unit) in GOALS.iter().enumerate() {
        let end = now() + Duration::from_secs(seconds) / GOALS.len() as u32;
        for start in STARTS.iter().chain(COSTLY).cycle() {
            let (mut numbers, mut most, mut stuck) = (parse(start), Cost::default(), 0);
            while stuck < STUCK && now() < end {
                let mut next = numbers.clone();
                if most[goal] > 0.0 {
                    mutate(&mut next, &mut random);
                }
                let body = if is_too_large(&next) { Vec::new() } else { review(&pod(&next)) };
                stuck += 1;
                if body.is_empty() || body.len() > BODY_MAX {
                    continue;
                }
                let found = cost(&body);
                if found[goal] > most[goal] * 1.02 {
                    (numbers, most, stuck) = (next, found, 0);
                }
            }
            println!("most {unit}: {}: {}", line(most), format(&numbers));
            if now() >= end {
                break;
            }
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

//! Measures `podgate-webhook` under load: admissions at a constant rate. Like an API server, the benchmark sends each
//! request when it is due, even if earlier ones are not answered yet. The latency of a request starts when the request
//! is due.
//!
//! ```text
//! make webhook && cargo bench --bench webhook [-- [--awake | --search | --flood] SECONDS [RATE]]
//! ```
//!
//! `--search` searches for the Pods that need the most processor time and memory, and for the largest answer. `--flood`
//! measures small reviews while eight clients send such Pods.
//!
//! `--awake` keeps processors from halting. Use this option if the hypervisor gives halted processors to other
//! machines.

mod awake;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../tests/webhook/client.rs"]
mod client;
mod costly;
mod shop;
mod steal;

/// Substitute for the tests' module `program`, which `client` imports.
mod program {
    pub(crate) const NAME: &str = "podgate-webhook.podgate.svc";
}

use client::{Client, Stream};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Number of connections. An API server keeps the same number.
const CONNECTIONS: usize = 25;
/// Interval between two printed lines about memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(10);

fn main() {
    let Some(awake) = awake::Awake::keep() else { return };
    // Ignore the argument --bench, which cargo adds.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |n: usize, default| words.get(n).map_or(default, |word| word.parse().expect("a number"));
    let (seconds, rate) = (number(0, 60), number(1, 200));
    let files = Files::new();
    let webhook = Webhook::start(&files);
    let body = client::review("705ab4f5-6393-11e8-b7cc-42010a800002", &shop::pod()).to_string();
    let client = Client::new(webhook.address, &files.ca);
    let has = |flag: &str| std::env::args().any(|word| word == flag);
    if has("--search") {
        return costly::search(&webhook, &client, seconds as u64);
    } else if has("--flood") {
        return costly::flood(&webhook, &client, &body, seconds as u64);
    }
    println!("{rate} admissions per second for {seconds} s, {} bytes each, {CONNECTIONS} connections", body.len());
    println!("resident before: {} KiB", webhook.resident());

    let (due, queue) = mpsc::channel();
    let queue = Arc::new(Mutex::new(queue));
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (queue, client, request) = (Arc::clone(&queue), client.clone(), request(body.as_bytes()));
            std::thread::spawn(move || work(&queue, &client, &request))
        })
        .collect();
    let (start, before) = (now(), steal::Time::now());
    let mut last_line = start;
    for n in 0..seconds * rate {
        let at = start
            + Duration::from_secs(1) * u32::try_from(n).expect("few enough") / u32::try_from(rate).expect("a rate");
        std::thread::sleep(at.saturating_duration_since(now()));
        due.send(at).expect("workers");
        if at - last_line >= MEMORY_INTERVAL {
            last_line = at;
            println!("after {:3} s: {} KiB", (at - start).as_secs(), webhook.resident());
        }
    }
    drop(due);
    let mut times: Vec<Duration> = workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect();
    let stolen = before.stolen_since() * 100.0;
    drop(awake);
    println!("resident after: {} KiB, peak: {} KiB", webhook.resident(), webhook.peak());
    println!("processor time: {:.2} ms per admission", webhook.processor_ms() / times.len() as f64);
    println!("processor time taken by the hypervisor: {stolen:.1} %");
    println!("answered and injected: {} of {}", times.len(), seconds * rate);
    print_latencies(&mut times);
}

fn print_latencies(times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    println!(
        "median {:.2} ms, 90 % {:.2} ms, 99 % {:.2} ms, 99.9 % {:.2} ms, longest {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Sends each request when it is due and waits for the answer. Returns the latencies.
fn work(queue: &Mutex<Receiver<Instant>>, client: &Client, request: &[u8]) -> Vec<Duration> {
    let mut connection = client.connect().expect("a connection");
    let mut times = Vec::new();
    loop {
        let next = queue.lock().expect("no panic").recv();
        let Ok(due) = next else { return times };
        let answer = exchange(&mut connection, request);
        assert!(answer.contains("\"allowed\":true") && answer.contains("\"patch\":"), "{answer}");
        times.push(now().saturating_duration_since(due));
    }
}

fn exchange(stream: &mut Stream, request: &[u8]) -> String {
    stream.write_all(request).and_then(|()| stream.flush()).expect("to send");
    let mut answer = Vec::new();
    let mut piece = [0; 16384];
    let mut length = None;
    while length.is_none_or(|length| answer.len() < length) {
        let count = stream.read(&mut piece).expect("to receive");
        assert!(count > 0, "the webhook closed the connection");
        answer.extend_from_slice(&piece[..count]);
        length = length.or_else(|| {
            let (head, _) = std::str::from_utf8(&answer).ok()?.split_once("\r\n\r\n")?;
            let line = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
            let body: usize = head.lines().find_map(line)?;
            Some(head.len() + 4 + body)
        });
    }
    String::from_utf8(answer).expect("text")
}

fn request(body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST /inject?timeout=5s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Files with a certificate and its private key.
struct Files {
    directory: PathBuf,
    ca: Vec<u8>,
}

impl Files {
    fn new() -> Files {
        let directory = std::env::temp_dir().join(format!("podgate-bench-webhook-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let made = rcgen::generate_simple_self_signed([program::NAME.to_owned()]).expect("a certificate");
        std::fs::write(directory.join("tls.crt"), made.cert.pem()).expect("to write");
        std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem()).expect("to write");
        Files { directory, ca: made.cert.pem().into_bytes() }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

struct Webhook {
    child: Child,
    address: SocketAddr,
}

impl Webhook {
    fn start(files: &Files) -> Webhook {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        let program = built.join(format!("{}-unknown-linux-musl/webhook/podgate-webhook", std::env::consts::ARCH));
        let (cert, key) = (files.directory.join("tls.crt"), files.directory.join("tls.key"));
        let mut child = Command::new(&program)
            .args([
                "--listen",
                "127.0.0.1:0",
                "--status-listen",
                "127.0.0.1:0",
                "--log-format",
                "json",
                "--tls",
                "files",
            ])
            .arg("--cert")
            .arg(cert)
            .arg("--key")
            .arg(key)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run make webhook first", program.display()));
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let listening = lines.find(|line| line.contains("\"listening\"")).expect("a line that reports the address");
        let listening: Value = serde_json::from_str(&listening).expect("JSON");
        let address = listening["address"].as_str().and_then(|text| text.parse().ok()).expect("an address");
        // Read the webhook's log, so that the pipe does not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Webhook { child, address }
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the webhook runs");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Returns the resident memory of the webhook in KiB.
    fn resident(&self) -> u64 {
        self.status("VmRSS")
    }

    /// Returns the processor time that the webhook's threads have used, in milliseconds.
    fn processor_ms(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the webhook runs").flatten();
        // The first number in `schedstat` is the time in nanoseconds. Unlike the time in `stat`, this time is exact.
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
        stats.filter_map(|stat| stat.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e6
    }

    fn peak(&self) -> u64 {
        self.status("VmHWM")
    }

    /// Forgets the earlier peak of the resident memory.
    fn reset_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("to reset the peak");
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

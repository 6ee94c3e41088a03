//! Tests of clients that open many connections and then send little or nothing.

use crate::client::{Client, Stream, pod, review};
use crate::program::{Files, Webhook, eventually};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Opens a connection that announces a body of 256 KiB, and sends only `sent` of the body.
fn announce_body(client: &Client, sent: &[u8]) -> Option<Stream> {
    let head = "POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n\r\n";
    let mut stream = client.connect().ok()?;
    stream.write_all(&[head.as_bytes(), sent].concat()).and_then(|()| stream.flush()).ok()?;
    Some(stream)
}

/// Runs `check` while other threads call `hold` again and again.
fn meanwhile(threads: usize, hold: impl Fn() + Sync, check: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hold();
                }
            });
        }
        // Set the flag even after a panic, so that the threads end.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn idle_connections_do_not_delay_health() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let idle = || {
        let mut stream = TcpStream::connect(webhook.status).unwrap();
        let _ = stream.read(&mut [0]);
    };
    meanwhile(100, idle, || {
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..20 {
            assert_eq!(webhook.page("/readyz").status, 200);
        }
    });
    // Open more connections than the status port serves at the same time.
    let many: Vec<_> = (0..400).map(|_| TcpStream::connect(webhook.status).unwrap()).collect();
    assert_eq!(webhook.page("/healthz").status, 200);
    drop(many);
}

/// A small Pod waits for two large ones at most. If all Pods shared one queue, the small Pod would wait for all large
/// ones.
#[test]
fn small_pod_overtakes_large_ones() {
    const LARGE: usize = 10;
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--log-level", "info"]);
    let client = webhook.client(&files.ca);
    let mut large = pod("c0");
    large["metadata"]["annotations"] = json!({"padding": "x".repeat(40 << 10)});
    large["spec"]["containers"] =
        (0..70).map(|n| json!({"name": format!("c{n}"), "image": "x", "command": ["x"]})).collect();
    for n in 1..70 {
        let before: Vec<String> = (0..n).map(|m| format!("c{m}")).collect();
        large["metadata"]["annotations"][format!("after.podgate.io/c{n}")] = before.join(",").into();
    }
    let (answered, body) = (AtomicUsize::new(0), review("large", &large).to_string());
    std::thread::scope(|scope| {
        for _ in 0..LARGE {
            scope.spawn(|| {
                // On a busy machine, a large review may time out.
                client.post(body.as_bytes());
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
        eventually("the large reviews are in progress", || {
            (webhook.metric("podgate_webhook_requests_in_flight") >= 8.0).then_some(())
        });
        assert_eq!(client.review(&review("small", &pod("db, api")))["uid"], "small");
        let answered = answered.load(Ordering::Relaxed);
        assert!(answered < LARGE - 2, "{answered}");
    });
}

#[test]
fn announced_bodies_do_not_delay_reviews() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--log-level", "info"]);
    let client = webhook.client(&files.ca);
    // Announce 160 bodies of 256 KiB: 40 MiB, more than the webhook's limit for all bodies, 24 MiB (`BUDGET`).
    let hold = || {
        if let Some(mut stream) = announce_body(&client, b"{") {
            let _ = stream.read(&mut [0]);
        }
    };
    meanwhile(160, hold, || {
        eventually("the bodies are announced", || {
            (webhook.metric("podgate_webhook_requests_in_flight") > 64.0).then_some(())
        });
        for _ in 0..10 {
            assert_eq!(client.review(&review("real", &pod("db, api")))["uid"], "real");
        }
    });
}

/// A client that sends its body slowly must not block other clients.
#[test]
fn incomplete_bodies_make_room_for_new_connections() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--log-level", "info"]);
    let client = webhook.client(&files.ca);
    let mut slow: Vec<_> = (0..20).filter_map(|_| announce_body(&client, b"{")).collect();
    eventually("the bodies are announced", || {
        (webhook.metric("podgate_webhook_requests_in_flight") == 20.0).then_some(())
    });
    let mut many = Vec::new();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b" ").and_then(|()| stream.flush())));
        many.extend((0..60).map(|_| TcpStream::connect(webhook.address).unwrap()));
    }
    eventually("the requests are closed, and no longer counted", || {
        (webhook.metric("podgate_webhook_requests_in_flight") == 0.0).then_some(())
    });
    assert!(webhook.metric("podgate_webhook_connections_failed_total{reason=\"crowded-out\"}") >= 20.0);
    // To make room, the webhook closes connections without a response.
    assert!(webhook.metric("podgate_webhook_requests_total{outcome=\"timeout\"}") < 20.0);
    drop(many);
    assert_eq!(client.post(review("after", &pod("db, api")).to_string().as_bytes()).status, 200);
}

#[test]
fn silent_and_slow_bodies_get_status_503() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let mut stream = announce_body(&client, b"").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{:?}", String::from_utf8_lossy(&answer));
    // The webhook also limits the time of a body that arrives slowly but without a long pause.
    let mut stream = announce_body(&client, b"").unwrap();
    stream.sock.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut answer = [0; 13];
    eventually("the slow body is rejected", || {
        let _ = stream.write_all(b" ").and_then(|()| stream.flush());
        stream.read_exact(&mut answer).ok()
    });
    assert_eq!(&answer, b"HTTP/1.1 503 ");
}

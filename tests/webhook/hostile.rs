//! Tests of requests and connections that no API server makes.

use crate::client::{pod, post, review};
use crate::hang_guard::HANG_GUARD;
use crate::program::{Files, Webhook, eventually, now};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Asserts that the webhook still responds as before and has not panicked.
fn still_works(webhook: &mut Webhook, files: &Files) {
    assert!(webhook.is_alive());
    assert_eq!(webhook.client(&files.ca).review(&review("after", &pod("db, api")))["uid"], "after");
    assert!(!webhook.log().iter().any(|line| line.to_string().contains("panic")), "{:?}", webhook.log());
}

#[test]
fn invalid_requests_get_error_responses() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let head = |start: &str, kind: &str| {
        format!("{start} HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}")
    };
    let json = "Content-Type: application/json\r\n";
    for (request, status, text) in [
        (head("POST /", json), 404, "/inject"),
        (head("POST /inject/x", json), 404, "/inject"),
        (head("GET /inject", json), 405, "POST"),
        (head("PUT /inject", json), 405, "POST"),
        (head("POST /inject", ""), 415, "application/json"),
        (head("POST /inject", "Content-Type: application/yaml\r\n"), 415, "application/json"),
        (head("POST /inject", "Content-Type: application/json; charset=utf-8\r\n"), 400, "not an AdmissionReview"),
    ] {
        let reply = client.raw(request.as_bytes()).unwrap();
        assert_eq!(reply.status, status, "{request}: {reply:?}");
        assert!(reply.body.contains(text), "{request}: {reply:?}");
    }
    assert!(client.raw(head("GET /inject", json).as_bytes()).unwrap().head.contains("\r\nallow: post"));
    for garbage in [&b"\0\0\0\0"[..], b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[b'A'; 40_000]] {
        // The webhook closes the connection or responds with an error, but never leaves the connection open.
        if let Ok(reply) = client.raw(garbage) {
            assert!((400..=505).contains(&reply.status), "{reply:?}");
        }
    }
    still_works(&mut webhook, &files);
}

#[test]
fn invalid_bodies_get_status_400() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let deep = "[".repeat(100_000);
    let deep_object = review("one", &pod("db, api"))
        .to_string()
        .replace("\"db\"", &format!("{}1{}", "[".repeat(200), "]".repeat(200)));
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
    for body in [
        "",
        "garbage",
        "null",
        "[]",
        "{}",
        "{\"kind\":\"AdmissionReview\"}",
        "\u{feff}{}",
        &deep,
        &deep_object,
        &many,
        "\"\\ud800\"",
    ] {
        let reply = client.post(body.as_bytes());
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.body.starts_with("not an AdmissionReview of admission.k8s.io/v1: "), "{reply:?}");
        assert_eq!(reply.body.lines().count(), 1, "{reply:?}");
        assert!(!reply.body.contains("expected"), "the reply contains the parser's message: {reply:?}");
    }
    assert_eq!(client.post(&[0xff; 100]).status, 400);
    still_works(&mut webhook, &files);
}

#[test]
fn pod_with_invalid_fields_causes_no_panic() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    for path in [
        "/metadata",
        "/metadata/annotations",
        "/metadata/labels",
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/0/name",
        "/spec/containers/1/command",
        "/spec/containers/0/readinessProbe",
    ] {
        for odd in [
            serde_json::json!(null),
            serde_json::json!(7),
            serde_json::json!("x"),
            serde_json::json!([1, "a", null]),
            serde_json::json!({"podgate.io/order": 3}),
        ] {
            let mut pod = pod("db, api");
            *pod.pointer_mut(path).unwrap() = odd.clone();
            let response = client.review(&review("odd", &pod));
            assert_eq!(response["uid"], "odd", "{path} {odd}");
        }
    }
    still_works(&mut webhook, &files);
}

#[test]
fn too_large_bodies_get_status_413() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let head = "POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let announced = format!("{head}Content-Length: 4194305\r\n\r\n");
    assert_eq!(client.raw(announced.as_bytes()).unwrap().status, 413);
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    // Only the last chunk exceeds 4 MiB. The webhook then closes the connection, so a client that has more to send would
    // get an error in place of the answer.
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}1\r\n \r\n", chunk.repeat(4));
    assert_eq!(client.raw(chunked.as_bytes()).unwrap().status, 413);
    // The webhook reads a body of the maximum size. This body contains only spaces, so it is not a review.
    assert_eq!(client.post(&vec![b' '; 4 << 20]).status, 400);
    still_works(&mut webhook, &files);
}

#[test]
fn slow_clients_are_disconnected_and_block_no_others() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let client = webhook.client(&files.ca);
    let since = now();
    // One client sends no handshake, one sends half a head, and one sends half a body.
    let mut silent = TcpStream::connect(webhook.address).unwrap();
    let mut open: Vec<_> = [
        "POST /inject HTTP/1.1\r\nHost:",
        "POST /inject HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ]
    .iter()
    .map(|part| {
        let mut stream = client.connect().unwrap();
        stream.write_all(part.as_bytes()).and_then(|()| stream.flush()).unwrap();
        stream
    })
    .collect();
    assert_eq!(client.review(&review("meanwhile", &pod("db, api")))["uid"], "meanwhile");
    silent.set_read_timeout(Some(HANG_GUARD)).unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    let mut answer = Vec::new();
    let _ = open[1].read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 503 "), "{:?}", String::from_utf8_lossy(&answer));
    let mut rest = Vec::new();
    let _ = open[0].read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(since.elapsed() < HANG_GUARD, "{:?}", since.elapsed());
    assert_eq!(webhook.metric("podgate_webhook_connections_failed_total{reason=\"handshake-timeout\"}"), 1.0);
    assert_eq!(webhook.metric("podgate_webhook_requests_total{outcome=\"timeout\"}"), 1.0);
    still_works(&mut webhook, &files);
}

/// Idle connections of other clients must not lock the API server out.
#[test]
fn oldest_idle_connections_make_room_for_new_ones() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &[]);
    let idle: Vec<_> = (0..600).map(|_| TcpStream::connect(webhook.address).unwrap()).collect();
    eventually("old connections are closed", || {
        (webhook.metric("podgate_webhook_connections_failed_total{reason=\"crowded-out\"}") > 50.0).then_some(())
    });
    still_works(&mut webhook, &files);
    drop(idle);
    let whole = post(review("end", &pod("db, api")).to_string().as_bytes());
    assert_eq!(webhook.client(&files.ca).raw(&whole).unwrap().status, 200);
}

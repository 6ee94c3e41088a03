//! Tests of start, load, certificate renewal and shutdown.

use crate::client::{pod, post, review};
use crate::hang_guard::HANG_GUARD;
use crate::program::{Files, Webhook, eventually};
use assert_cmd::Command;
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn two_hundred_concurrent_requests_are_served() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &["--log-level", "info"]);
    let client = webhook.client(&files.ca);
    let threads: Vec<_> = (0..200)
        .map(|n| {
            let client = client.clone();
            std::thread::spawn(move || {
                let uid = format!("uid-{n}");
                (client.review(&review(&uid, &pod("db, api")))["uid"] == uid.as_str()).then_some(())
            })
        })
        .collect();
    assert_eq!(threads.into_iter().filter_map(|thread| thread.join().unwrap()).count(), 200);
    assert_eq!(webhook.metric("podgate_webhook_requests_in_flight"), 0.0);
}

#[test]
fn one_connection_serves_many_requests() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let mut stream = webhook.client(&files.ca).connect().unwrap();
    let body = review("one", &pod("db, api")).to_string();
    let request = String::from_utf8(post(body.as_bytes())).unwrap().replace("Connection: close\r\n", "");
    for _ in 0..20 {
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).unwrap();
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !answer.windows(3).any(|part| part == b"}}\n" || part == b"}}}") && !answer.ends_with(b"}}") {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "connection closed after {answer:?}");
            answer.extend_from_slice(&piece[..count]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
    assert_eq!(webhook.metric("podgate_webhook_connections"), 1.0);
}

#[test]
fn status_port_serves_health_and_metrics() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    for (path, status, text) in [
        ("/healthz", 200, "ok"),
        ("/readyz", 200, "ok"),
        ("/metrics", 200, "# EOF"),
        ("/", 404, "/metrics"),
        ("/inject", 404, "/metrics"),
    ] {
        let reply = webhook.page(path);
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.body.contains(text), "{path}: {reply:?}");
    }
    assert!(webhook.metric("podgate_webhook_certificate_expiry_timestamp") > 4e9, "rcgen's default is the year 4096");
}

/// After SIGTERM the webhook finishes open requests, still serves new ones with `Connection: close`, and then exits.
#[test]
fn sigterm_drains_and_exits() {
    let files = Files::new();
    let mut webhook = Webhook::with_files(&files, &["--shutdown-delay", "2s"]);
    let client = webhook.client(&files.ca);
    let whole = post(review("late", &pod("db, api")).to_string().as_bytes());
    let (first, second) = whole.split_at(whole.len() - 10);
    let mut begun = client.connect().unwrap();
    begun.write_all(first).and_then(|()| begun.flush()).unwrap();
    let mut idle = client.connect().unwrap();
    eventually("the request has begun", || (webhook.metric("podgate_webhook_requests_in_flight") == 1.0).then_some(()));

    webhook.signal("-TERM");
    eventually("the webhook is not ready", || (!webhook.is_ready()).then_some(()));
    assert_eq!(webhook.page("/readyz").body, "shutting down\n");
    assert_eq!(webhook.page("/healthz").status, 200);
    // The API server may open a new connection before it detects the shutdown. Without the shutdown, the webhook would
    // keep the connection open.
    let request = String::from_utf8(whole.clone()).unwrap().replace("Connection: close\r\n", "");
    let meanwhile = client.raw(request.as_bytes()).unwrap();
    assert_eq!(meanwhile.status, 200);
    assert!(meanwhile.head.contains("\r\nconnection: close"), "{meanwhile:?}");

    begun.write_all(second).and_then(|()| begun.flush()).unwrap();
    let mut answer = Vec::new();
    let _ = begun.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    assert!(String::from_utf8_lossy(&answer).contains("\"late\""));
    // An idle connection does not delay the exit.
    let status = webhook.wait();
    assert_eq!(status.code(), Some(0));
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(webhook.client(&files.ca).connect().is_err());
}

#[test]
fn old_certificate_is_served_while_the_new_key_file_is_invalid() {
    let files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    files.put("tls.key", b"-----BEGIN PRIVATE KEY-----\n");
    eventually("the webhook has read the file", || {
        (webhook.metric("podgate_webhook_certificate_checks_total{result=\"failed\"}") > 0.0).then_some(())
    });
    assert_eq!(webhook.client(&files.ca).review(&review("one", &pod("db, api")))["uid"], "one");
}

#[test]
fn certificate_is_renewed_without_a_restart() {
    let mut files = Files::new();
    let webhook = Webhook::with_files(&files, &[]);
    let old = files.ca.clone();
    let before = webhook.client(&old);
    let mut kept = before.connect().unwrap();
    files.renew();
    let after = webhook.client(&files.ca);
    eventually("the new certificate is served", || after.connect().ok());
    assert!(before.connect().is_err(), "the old CA is no longer valid");
    // An existing connection stays open.
    kept.write_all(&post(review("kept", &pod("db, api")).to_string().as_bytes())).and_then(|()| kept.flush()).unwrap();
    let mut answer = Vec::new();
    let _ = kept.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn failed_start_prints_the_reason() {
    let files = Files::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (cert, key) = (files.path("tls.crt"), files.path("tls.key"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    files.put("garbage", b"garbage");
    let garbage = files.path("garbage");
    let garbage = garbage.to_str().unwrap();
    for (arguments, code, text) in [
        (&["--tls", "files", "--cert", cert, "--key", key, "--listen", &taken][..], 1, "cannot listen on 127.0.0.1:"),
        (&["--tls", "files", "--cert", cert, "--key", "/no/such"], 1, "cannot read /no/such: no such file"),
        (&["--tls", "files", "--cert", garbage, "--key", key], 1, "no certificate found"),
        (&["--tls", "files", "--cert", cert, "--key", garbage], 1, "the private key"),
        (&["--tls", "files", "--cert", cert], 64, "--key <FILE>"),
        (&["--tls", "none"], 64, "[possible values: self, files]"),
        (&["--listen", "8443"], 64, "neither ADDRESS:PORT nor :PORT"),
        (&["--certificate-life", "1s"], 64, "between 1min and 366days"),
        (&["--image", "Not An Image"], 64, "not an image; write REGISTRY/NAME:TAG"),
        (&["--kubeconfig", "/no/such"], 1, "kubeconfig"),
        (&[], 1, "pass --kubeconfig"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podgate-webhook"));
        command.env_clear().env("HOME", files.dir.path()).timeout(HANG_GUARD);
        let output = command.args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(text), "{arguments:?}: {stderr}");
    }
}

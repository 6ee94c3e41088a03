//! Tests of `httpGet` probes over TCP.

use super::*;
use podgate::core::http::PROBE_USER_AGENT;

fn ok() -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test(flavor = "local")]
async fn status_code_determines_the_result() {
    let (port, _) = serve(|target| format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", &target[1..])).await;
    for status in [200, 204, 299, 300, 302, 304, 399, 400, 401, 404, 500, 503] {
        let outcome = ask_http(port, &format!("/{status}")).await;
        assert_eq!(outcome.success, status < 400, "{outcome:?}");
        assert_eq!(outcome.warning.is_some(), (300..400).contains(&status), "{outcome:?}");
        assert_eq!(outcome.detail, format!("HTTP status {status}"));
    }
}

#[tokio::test(flavor = "local")]
async fn request_is_the_same_as_the_kubelets() {
    let (port, heads) = serve(|_| ok()).await;
    assert!(ask_http(port, "ready?a=b c").await.success);
    let expected = format!(
        "GET /ready?a=b%20c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {PROBE_USER_AGENT}\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    assert_eq!(heads.borrow()[0], expected);
    assert!(PROBE_USER_AGENT.starts_with("kube-probe/podgate-"));
}

#[tokio::test(flavor = "local")]
async fn user_headers_override_and_remove_defaults() {
    let (port, heads) = serve(|_| ok()).await;
    let http_headers = vec![
        header("host", "example.com"),
        header("X-A", "1"),
        header("X-A", "2"),
        header("Accept", ""),
        header("user-agent", "me"),
        header("content-length", "5"),
    ];
    let get = HttpGet { host: Some("localhost".to_owned()), http_headers, ..http_get(port, "/") };
    assert!(ask_get(get.clone()).await.success);
    let expected = "GET / HTTP/1.1\r\nHost: example.com\r\nUser-Agent: me\r\nX-A: 1\r\nX-A: 2\r\n\
                    Connection: close\r\n\r\n";
    assert_eq!(heads.borrow()[0], expected);
    assert!(ask_get(HttpGet { http_headers: Vec::new(), ..get.clone() }).await.success);
    assert!(heads.borrow()[1].contains(&format!("\r\nHost: localhost:{port}\r\n")));
    let http_headers = vec![header("X", "a\r\nb")];
    let invalid = ask_get(HttpGet { http_headers, ..get }).await;
    assert!(!invalid.success && invalid.detail.contains("invalid header"), "{invalid:?}");
}

#[tokio::test(flavor = "local")]
async fn redirects_to_any_port_of_the_same_host_are_followed() {
    let (last, heads) = serve(|target| if target == "/end" { ok() } else { redirect(307, "end") }).await;
    let (first, _) = serve(move |_| redirect(302, &format!("http://127.0.0.1:{last}/on"))).await;
    let http_headers = vec![header("Host", "example.com")];
    let outcome = ask_get(HttpGet { http_headers, ..http_get(first, "/") }).await;
    assert_eq!(outcome, Outcome::success("HTTP status 200".to_owned(), None));
    let heads = heads.borrow();
    assert!(heads.iter().all(|head| head.contains(&format!("Host: 127.0.0.1:{last}\r\n"))), "{heads:?}");
    assert!(heads[1].starts_with("GET /end "), "{heads:?}");
}

#[tokio::test(flavor = "local")]
async fn relative_redirects_keep_the_users_host_header() {
    let (port, heads) = serve(|target| if target == "/end" { ok() } else { redirect(301, "/end") }).await;
    let http_headers = vec![header("Host", "example.com")];
    assert!(ask_get(HttpGet { http_headers, ..http_get(port, "/") }).await.success);
    assert!(heads.borrow().iter().all(|head| head.contains("Host: example.com\r\n")), "{heads:?}");
}

#[tokio::test(flavor = "local")]
async fn redirect_to_another_host_succeeds_with_a_warning() {
    for to in ["http://example.com/secret?token", "//example.com", "https://example.com:9"] {
        let (port, heads) = serve(move |_| redirect(302, to)).await;
        let outcome = ask_http(port, "/").await;
        assert!(outcome.success);
        let warning = outcome.warning.unwrap();
        assert!(warning.contains("example.com") && !warning.contains("secret"), "{warning}");
        assert_eq!(heads.borrow().len(), 1);
    }
}

#[tokio::test(flavor = "local")]
async fn redirects_end_after_ten_requests() {
    let (port, heads) = serve(|_| redirect(308, "/again")).await;
    let outcome = ask_http(port, "/").await;
    assert_eq!((outcome.success, outcome.detail.as_str()), (false, "stopped after 10 redirects"));
    assert_eq!(heads.borrow().len(), 10);
}

#[tokio::test(flavor = "local")]
async fn unknown_scheme_is_a_failure() {
    let outcome = ask_get(HttpGet { scheme: Some("ftp".to_owned()), ..http_get(1, "/") }).await;
    assert!(!outcome.success && outcome.detail.contains("neither http nor https"), "{outcome:?}");
}

#[tokio::test(flavor = "local")]
async fn responses_are_accepted_as_by_gos_client() {
    for (answer, is_accepted) in [
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", true),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", true),
        ("", false),
        ("\n\n\n", false),
        ("SSH-2.0-OpenSSH_9.6\r\n", false),
        ("HTTP/1.1 abc\r\n\r\n", false),
        ("HTTP/1.1 200", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false),
    ] {
        let (port, _) = serve(|_| answer.to_owned()).await;
        let outcome = ask_http(port, "/").await;
        assert!(outcome.success == is_accepted && !outcome.detail.is_empty(), "{answer:?}: {outcome:?}");
    }
}

/// A server that sends faster than the probe can read must not block the only thread.
#[tokio::test(flavor = "local")]
async fn endless_response_ends_the_attempt_early() {
    for (start, flood, success) in [
        // Only the beginning of a body is read, so an endless body is no failure.
        ("HTTP/1.1 200 OK\r\n\r\n", "x", true),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n", false),
        ("HTTP/1.1 200 OK\r\n", "no end of it", false),
        ("", "HTTP/1.1 100 Continue\r\n\r\n", false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "0000000000001;xxxxxxxxxxxxxxxxxxxxxxxx\r\nx\r\n",
            false,
        ),
    ] {
        let port = serve_endlessly(start.as_bytes(), flood.repeat(100).into(), None).await;
        let outcome = ask_patiently(Handler::HttpGet(http_get(port, "/"))).await;
        assert_eq!(outcome.success, success, "{flood:?}: {outcome:?}");
    }
}

/// Each of these servers keeps the connection open and never finishes its response.
#[tokio::test(flavor = "local", start_paused = true)]
async fn slow_servers_fail_at_the_time_limit() {
    let each = async |(start, drip): (&'static str, &str)| {
        // The kubelet neither counts nor reports a body that does not arrive in time.
        let is_body = start.ends_with("\r\n\r\n");
        let port = serve_endlessly(start.as_bytes(), drip.into(), Some(Duration::from_millis(20))).await;
        let outcome = ask_http(port, "/").await;
        assert_eq!((outcome.success, outcome.is_discarded), (false, is_body), "{start:?} {drip:?}");
        assert!(outcome.detail.contains("no answer in time"), "{outcome:?}");
    };
    let drips = [
        ("", ""),
        ("", "H"),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
    ];
    futures::future::join_all(drips.map(each)).await;
}

//! `httpGet` over TCP.

use super::*;

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn the_status_decides() {
    run(async {
        let (port, _) = serve(|target| format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", &target[1..])).await;
        for status in [200, 204, 299, 300, 302, 304, 399, 400, 401, 404, 500, 503] {
            let outcome = ask_http(port, &format!("/{status}")).await;
            assert_eq!(outcome.success, status < 400, "{outcome:?}");
            assert_eq!(outcome.warning.is_some(), (300..400).contains(&status), "{outcome:?}");
            assert_eq!(outcome.detail, format!("HTTP status {status}"));
        }
    });
}

#[test]
fn a_request_is_the_kubelets() {
    run(async {
        let (port, heads) = serve(|_| ok("")).await;
        assert!(ask_http(port, "ready?a=b c").await.success);
        let expected = format!(
            "GET /ready?a=b%20c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n\
             Connection: close\r\n\r\n"
        );
        assert_eq!(heads.borrow()[0], expected);
        assert!(USER_AGENT.starts_with("kube-probe/podgate-"));
    });
}

#[test]
fn own_headers_override_and_remove() {
    run(async {
        let (port, heads) = serve(|_| ok("")).await;
        let own = [
            ("host", "example.com"),
            ("X-A", "1"),
            ("X-A", "2"),
            ("Accept", ""),
            ("user-agent", "me"),
            ("content-length", "5"),
        ];
        let http_headers = own.map(|(name, value)| Header { name: name.to_owned(), value: value.to_owned() }).into();
        let get = HttpGet { host: Some("localhost".to_owned()), http_headers, ..http_get(port, "/") };
        assert!(ask(Handler::HttpGet(get.clone())).await.success);
        let expected = "GET / HTTP/1.1\r\nHost: example.com\r\nUser-Agent: me\r\nX-A: 1\r\nX-A: 2\r\n\
                        Connection: close\r\n\r\n";
        assert_eq!(heads.borrow()[0], expected);
        assert!(ask(Handler::HttpGet(HttpGet { http_headers: Vec::new(), ..get.clone() })).await.success);
        assert!(heads.borrow()[1].contains(&format!("\r\nHost: localhost:{port}\r\n")));
        let http_headers = vec![Header { name: "X".to_owned(), value: "a\r\nb".to_owned() }];
        let torn = ask(Handler::HttpGet(HttpGet { http_headers, ..get })).await;
        assert!(!torn.success && torn.detail.contains("no header to send"), "{torn:?}");
    });
}

#[test]
fn redirects_on_the_same_host_are_followed_whatever_the_port() {
    run(async {
        let (last, heads) = serve(|target| if target == "/end" { ok("") } else { redirect(307, "end") }).await;
        let (first, _) = serve(move |_| redirect(302, &format!("http://127.0.0.1:{last}/on"))).await;
        let http_headers = vec![Header { name: "Host".to_owned(), value: "example.com".to_owned() }];
        let outcome = ask(Handler::HttpGet(HttpGet { http_headers, ..http_get(first, "/") })).await;
        assert_eq!(outcome, Outcome { success: true, detail: "HTTP status 200".to_owned(), warning: None });
        let heads = heads.borrow();
        assert!(heads[0].contains(&format!("Referer: http://127.0.0.1:{first}/\r\n")), "{heads:?}");
        assert!(heads.iter().all(|head| head.contains(&format!("Host: 127.0.0.1:{last}\r\n"))), "{heads:?}");
        assert!(heads[1].starts_with("GET /end "), "{heads:?}");
    });
}

#[test]
fn an_own_host_stays_with_relative_redirects() {
    run(async {
        let (port, heads) = serve(|target| if target == "/end" { ok("") } else { redirect(301, "/end") }).await;
        let http_headers = vec![Header { name: "Host".to_owned(), value: "example.com".to_owned() }];
        assert!(ask(Handler::HttpGet(HttpGet { http_headers, ..http_get(port, "/") })).await.success);
        assert!(heads.borrow().iter().all(|head| head.contains("Host: example.com\r\n")), "{heads:?}");
    });
}

#[test]
fn a_redirect_to_another_host_succeeds_with_a_warning() {
    run(async {
        for to in ["http://example.com/secret?token", "//example.com", "https://example.com:9"] {
            let (port, heads) = serve(move |_| redirect(302, to)).await;
            let outcome = ask_http(port, "/").await;
            assert!(outcome.success);
            let warning = outcome.warning.unwrap();
            assert!(warning.contains("example.com") && !warning.contains("secret"), "{warning}");
            assert_eq!(heads.borrow().len(), 1);
        }
    });
}

#[test]
fn redirects_end_after_ten_requests() {
    run(async {
        let (port, heads) = serve(|_| redirect(308, "/again")).await;
        let outcome = ask_http(port, "/").await;
        assert_eq!((outcome.success, outcome.detail.as_str()), (false, "stopped after 10 redirects"));
        assert_eq!(heads.borrow().len(), 10);
    });
}

#[test]
fn a_redirect_that_leads_nowhere_fails() {
    run(async {
        let closed = closed_port().await;
        for to in
            ["http://127.0.0.1:x/".to_owned(), "ftp://127.0.0.1/".to_owned(), format!("http://127.0.0.1:{closed}/")]
        {
            let (port, _) = serve(move |_| redirect(302, &to)).await;
            let outcome = ask_http(port, "/").await;
            assert!(!outcome.success, "{outcome:?}");
        }
    });
}

#[test]
fn nobody_and_garbage_are_failures() {
    run(async {
        let refused = ask_http(closed_port().await, "/").await;
        assert!(!refused.success && refused.detail.ends_with("Connection refused"), "{refused:?}");
        for garbage in [
            "",
            "\n\n\n",
            "SSH-2.0-OpenSSH_9.6\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            let (port, _) = serve(|_| garbage.to_owned()).await;
            let outcome = ask_http(port, "/").await;
            assert!(!outcome.success && !outcome.detail.is_empty(), "{garbage:?}: {outcome:?}");
        }
    });
}

#[test]
fn answers_that_gos_client_takes_are_taken() {
    run(async {
        for answer in [
            "HTTP/1.0 200 OK\r\n\r\nuntil the end",
            "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (port, _) = serve(|_| answer.to_owned()).await;
            let outcome = ask_http(port, "/").await;
            assert!(outcome.success, "{answer:?}: {outcome:?}");
        }
    });
}

#[test]
fn no_more_than_the_beginning_of_a_body_is_read() {
    run(async {
        let port = accept(|mut stream| async move {
            let head = b"HTTP/1.1 200 OK\r\n\r\n";
            let mut whole = head.to_vec();
            // It never ends, and never closes.
            while stream.write_all(&whole).await.is_ok() {
                whole = vec![b'x'; 1000];
            }
        })
        .await;
        assert!(ask_patiently(Handler::HttpGet(http_get(port, "/"))).await.success);
    });
}

#[test]
fn a_head_has_bounds() {
    run(async {
        for line in ["A: b\r\n", "no end of it"] {
            let port = accept(move |mut stream| async move {
                let mut part = b"HTTP/1.1 200 OK\r\n".to_vec();
                while stream.write_all(&part).await.is_ok() {
                    part = line.repeat(100).into_bytes();
                }
            })
            .await;
            let outcome = ask_patiently(Handler::HttpGet(http_get(port, "/"))).await;
            assert!(!outcome.success, "{outcome:?}");
        }
    });
}

/// Each of these keeps a connection open, without ever coming to an end.
#[test]
fn whoever_is_slow_fails_at_the_limit() {
    let drips = [
        ("", ""),
        ("", "H"),
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
    ];
    let each = |(start, drip): (&'static str, &'static str)| {
        run(async move {
            let port = accept(move |mut stream| async move {
                let mut part = start;
                while stream.write_all(part.as_bytes()).await.is_ok() {
                    part = drip;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            let outcome = ask_http(port, "/").await;
            assert_eq!(
                (outcome.success, outcome.detail.as_str()),
                (false, "no answer within 1 s"),
                "{start:?} {drip:?}"
            );
        });
    };
    std::thread::scope(|scope| {
        for drip in drips {
            scope.spawn(move || each(drip));
        }
    });
}

/// Whoever sends faster than can be read must not keep the one thread.
#[test]
fn a_flood_ends_soon() {
    for (start, flood) in [
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0000000000001;xxxxxxxxxxxxxxxxxxxxxxxx\r\nx\r\n"),
    ] {
        run(async move {
            let port = accept(move |mut stream| async move {
                let mut part = start.to_owned();
                while stream.write_all(part.as_bytes()).await.is_ok() {
                    part = flood.repeat(100);
                }
            })
            .await;
            let outcome = ask_patiently(Handler::HttpGet(http_get(port, "/"))).await;
            assert!(!outcome.success, "{flood:?}: {outcome:?}");
        });
    }
}

#[test]
fn an_attempt_leaves_no_connection() {
    run(async {
        let (closed, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let port = accept(move |mut stream| {
            let closed = closed.clone();
            async move {
                let mut sink = Vec::new();
                let _ = stream.read_to_end(&mut sink).await;
                let _ = closed.send(());
            }
        })
        .await;
        assert!(!ask_http(port, "/").await.success);
        seen.recv().await.unwrap();
    });
}

#[test]
fn schemes_are_http_and_https() {
    run(async {
        let get = HttpGet { scheme: Some("ftp".to_owned()), ..http_get(closed_port().await, "/") };
        let outcome = ask(Handler::HttpGet(get)).await;
        assert!(!outcome.success && outcome.detail.contains("neither"), "{outcome:?}");
    });
}

#[test]
fn an_address_of_ipv6_stands_in_brackets() {
    run(async {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1000];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(ok("").as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let get = probe(Handler::HttpGet(http_get(port, "/")));
        assert!(attempt(&Container::default(), &get, Ipv6Addr::LOCALHOST.into()).await.success);
        assert!(heard.await.unwrap().contains(&format!("Host: [::1]:{port}\r\n")));
    });
}

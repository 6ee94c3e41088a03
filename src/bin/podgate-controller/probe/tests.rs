//! Tests of attempts against real servers on the loopback interface.

mod grpc;
mod http;
mod https;
mod prober;

use super::*;
use podgate::core::container::{Grpc, HttpGet, Port, PortRef, TcpSocket};
use podgate::core::http::Header;
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::spawn_local;

const POD_IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn probe(handler: Handler) -> Probe {
    Probe {
        handler,
        initial_delay_seconds: 0,
        timeout_seconds: 1,
        period_seconds: 10,
        success_threshold: 1,
        failure_threshold: 3,
    }
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.to_owned(), value: value.to_owned() }
}

fn http_get(port: u16, path: &str) -> HttpGet {
    HttpGet {
        path: Some(path.to_owned()),
        port: PortRef::Number(port),
        host: None,
        scheme: None,
        http_headers: Vec::new(),
        protocol: None,
    }
}

/// Makes one attempt within `timeout_seconds`.
async fn ask_within(timeout_seconds: u32, handler: Handler) -> Outcome {
    let probe = Probe { timeout_seconds, ..probe(handler) };
    let outcome = attempt(&Container::default(), &probe, POD_IP).await;
    assert!(outcome.detail.len() <= MAX_LINE_BYTES && !outcome.detail.contains('\n'), "{outcome:?}");
    outcome
}

async fn ask(handler: Handler) -> Outcome {
    ask_within(1, handler).await
}

/// Makes an attempt with a time limit of 60 s. On a busy machine, a server may need many seconds to send much data.
async fn ask_patiently(handler: Handler) -> Outcome {
    let outcome = ask_within(60, handler).await;
    assert!(!outcome.detail.contains("no answer in time"), "{outcome:?}");
    outcome
}

async fn ask_http(port: u16, path: &str) -> Outcome {
    ask_get(http_get(port, path)).await
}

async fn ask_get(get: HttpGet) -> Outcome {
    ask(Handler::HttpGet(get)).await
}

async fn bind(ip: IpAddr) -> (TcpListener, u16) {
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The request heads that a server received.
type Heads = Rc<RefCell<Vec<String>>>;

/// Starts a server that answers each request with `answer(target)` and then closes the connection.
async fn serve(answer: impl Fn(&str) -> String + 'static) -> (u16, Heads) {
    let (listener, port) = bind(POD_IP).await;
    let heads = Heads::default();
    let seen = heads.clone();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            seen.borrow_mut().push(head);
            // Ignore an error, because the client may have closed the connection already.
            let _ = stream.write_all(answer(&target).as_bytes()).await;
        }
    });
    (port, heads)
}

/// Starts a server that writes `start`, then `more` repeatedly, and never closes a connection.
async fn serve_endlessly(start: &'static [u8], more: Vec<u8>, pause: Option<Duration>) -> u16 {
    accept(move |mut stream| {
        let more = more.clone();
        async move {
            let mut part = start;
            while stream.write_all(part).await.is_ok() {
                part = &more;
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    })
    .await
}

/// Starts a server that runs `then` for each connection.
async fn accept<F: Future<Output = ()> + 'static>(then: impl Fn(TcpStream) -> F + 'static) -> u16 {
    let (listener, port) = bind(POD_IP).await;
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            spawn_local(then(stream));
        }
    });
    port
}

#[tokio::test(flavor = "local")]
async fn tcp_socket_probe_needs_only_a_connection() {
    let (listener, port) = bind(POD_IP).await;
    let socket = |port, host: Option<&str>| {
        Handler::TcpSocket(TcpSocket { port: PortRef::Number(port), host: host.map(str::to_owned) })
    };
    assert!(ask(socket(port, None)).await.success);
    assert!(ask(socket(port, Some("localhost"))).await.success, "a host name");
    assert!(ask(socket(port, Some(""))).await.success, "an empty host");
    drop(listener);
    let refused = ask(socket(port, None)).await;
    assert_eq!((refused.success, refused.detail), (false, "refused".to_owned()));
    let none = ask(socket(0, None)).await;
    assert!(!none.success && none.detail.contains("has no valid port"), "{none:?}");
}

#[tokio::test(flavor = "local")]
async fn ports_are_found_by_name_and_ipv6_pods_are_probed() {
    let (_listener, container_port) = bind(Ipv6Addr::LOCALHOST.into()).await;
    let ports = vec![Port { name: Some("web".to_owned()), container_port }];
    let container = Container { name: "db".to_owned(), ports, ..Default::default() };
    let by_name =
        |name: &str| probe(Handler::TcpSocket(TcpSocket { port: PortRef::Name(name.to_owned()), host: None }));
    assert!(attempt(&container, &by_name("web"), Ipv6Addr::LOCALHOST.into()).await.success);
    let unknown = attempt(&container, &by_name("www"), Ipv6Addr::LOCALHOST.into()).await;
    assert_eq!((unknown.success, unknown.detail.as_str()), (false, "container db has no valid port for this probe"));
}

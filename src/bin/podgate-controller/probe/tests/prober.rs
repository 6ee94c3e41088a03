//! Tests of the schedule of attempts: how many attempts run, and when they start.

use super::*;
use crate::clock::now;
use crate::probe::prober::{ProbeEvent, Prober};
use std::cell::Cell;

/// Time limit for a test that would otherwise hang.
const HANG: Duration = Duration::from_secs(30);

fn container(name: &str, port: u16) -> Container {
    let probe = Probe { timeout_seconds: 600, ..probe(Handler::HttpGet(http_get(port, "/"))) };
    Container { name: name.to_owned(), readiness_probe: Some(probe), ..Container::default() }
}

/// A listening socket makes a probe start at once, but only if it listens on the probe's own address.
#[tokio::test(flavor = "local")]
async fn listener_counts_on_the_address_of_the_probe() {
    let (_listener, port) = bind(POD_IP).await;
    let other_ip = Ipv4Addr::new(127, 0, 0, 2).into();
    for (pod_ip, host, expected) in [
        (POD_IP, None, true),
        (other_ip, None, false),
        (other_ip, Some("localhost"), true),
        (other_ip, Some("127.0.0.1"), true),
        (POD_IP, Some("192.0.2.1"), false),
    ] {
        let get = HttpGet { host: host.map(str::to_owned), ..http_get(port, "/") };
        let probe = Probe { timeout_seconds: 600, ..probe(Handler::HttpGet(get)) };
        let container = Container { readiness_probe: Some(probe), ..container("db", port) };
        let mut prober = Prober::new(pod_ip, Duration::ZERO);
        prober.start(&container, 1, false);
        let first = tokio::time::timeout(Duration::from_millis(50), async {
            while !matches!(prober.next_event().await, ProbeEvent::Listening(_)) {}
        });
        assert_eq!(first.await.is_ok(), expected, "{host:?} from {pod_ip}");
    }
}

/// Starts a server that never finishes its response. Returns its port, the number of accepted connections, and the
/// number of connections that are still open.
async fn serve_never() -> (u16, Rc<Cell<usize>>, Rc<Cell<usize>>) {
    let (accepted, open) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (seen, live) = (accepted.clone(), open.clone());
    let port = accept(move |mut stream| {
        seen.set(seen.get() + 1);
        live.set(live.get() + 1);
        let live = live.clone();
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ").await;
            while stream.read_u8().await.is_ok() {}
            live.set(live.get() - 1);
        }
    })
    .await;
    (port, accepted, open)
}

/// Runs the prober until `condition` returns true. Returns the containers whose attempts have ended.
async fn run_until(prober: &mut Prober, mut condition: impl FnMut(&[String]) -> bool) -> Vec<String> {
    let mut ended = Vec::new();
    let end = tokio::time::Instant::now() + HANG;
    while !condition(&ended) {
        assert!(tokio::time::Instant::now() < end, "the condition never holds");
        if let Ok(ProbeEvent::AttemptEnded(attempt, _)) =
            tokio::time::timeout(Duration::from_millis(5), prober.next_event()).await
        {
            ended.push(attempt.container);
        }
    }
    ended
}

/// Each restart of a container drops the attempt of the earlier incarnation, with its connection.
#[tokio::test(flavor = "local")]
async fn container_has_at_most_one_attempt() {
    let (port, accepted, open) = serve_never().await;
    let (web_port, _) = serve(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let mut prober = Prober::new(POD_IP, Duration::ZERO);
    let evil = container("evil", port);
    for run in 0..8 {
        prober.start(&evil, run, false);
        let expected = accepted.get() + 1;
        run_until(&mut prober, |_| accepted.get() >= expected).await;
    }
    run_until(&mut prober, |_| open.get() == 1).await;
    prober.start(&container("web", web_port), 0, false);
    let ended = run_until(&mut prober, |ended| !ended.is_empty()).await;
    assert_eq!(ended, ["web"], "an unfinished attempt delays no other container");
    prober.stop("evil");
    run_until(&mut prober, |_| open.get() == 0).await;
    assert_eq!(accepted.get(), 8);
}

/// A container that restarts 10 times in a row is probed at once each time. The next restarts are probed later.
#[tokio::test(flavor = "local")]
async fn start_of_probing_is_limited_for_each_container() {
    let (evil, db) = (container("evil", 1), container("db", 2));
    let mut prober = Prober::new(POD_IP, Duration::ZERO);
    let begin = now();
    for run in 0..=10 {
        prober.start(&evil, run, false);
        assert!(prober.next_due().unwrap() <= now(), "restart {run} is probed at once");
    }
    for run in 11..50 {
        prober.start(&evil, run, run % 2 == 0);
        prober.confirm("evil");
        if run % 3 == 0 {
            prober.stop("evil");
            prober.start(&evil, run, false);
        }
        let due = prober.next_due().expect("a delayed restart is not forgotten");
        assert!(due >= begin + Duration::from_secs(10) && due <= now() + Duration::from_secs(10), "restart {run}");
    }
    prober.start(&db, 0, false);
    assert!(prober.next_due().unwrap() <= now(), "db is probed at once");
}

//! Prometheus metrics, and the HTTP server for them. By default, the sidecar opens no port.

use crate::clock::now;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use podgate::core::state::State;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

/// Time limit for the whole exchange with a client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENTS_MAX: usize = 8;
/// Limit on the size of a request's head, in bytes. Without this limit, the clients could fill the sidecar's memory.
const REQUEST_MAX: usize = 8192;
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

pub(crate) struct Metrics {
    registry: Registry,
    states: Family<Labels, Gauge>,
    transitions: Family<Labels, Counter>,
    probes: Family<Labels, Histogram, fn() -> Histogram>,
    patches: Family<Labels, Counter>,
    startups: Family<Labels, Gauge<f64, AtomicU64>>,
    started_at: RefCell<BTreeMap<String, Instant>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("podgate"),
            states: Family::default(),
            transitions: Family::default(),
            probes: Family::new_with_constructor(|| {
                Histogram::new([0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
            }),
            patches: Family::default(),
            startups: Family::default(),
            started_at: RefCell::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("build", "Program version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register("container_state", "1 for the current state, 0 for others", metrics.states.clone());
        registry.register("state_transitions", "State changes, by the new state", metrics.transitions.clone());
        registry.register_with_unit("probe", "Duration of probe attempts", Unit::Seconds, metrics.probes.clone());
        registry.register("patches", "Patches of the Pod's annotations, by result", metrics.patches.clone());
        let help = "Time from a container's start until it was Ready";
        registry.register_with_unit("startup", help, Unit::Seconds, metrics.startups.clone());
        metrics
    }
}

impl Metrics {
    pub(crate) fn record_transition(&self, container: &str, from: Option<State>, to: State) {
        let labels = |state: State| vec![("container", container.to_owned()), ("state", state.to_string())];
        if let Some(from) = from {
            self.states.get_or_create(&labels(from)).set(0);
        }
        self.states.get_or_create(&labels(to)).set(1);
        self.transitions.get_or_create(&labels(to)).inc();
        match to {
            State::Started => _ = self.started_at.borrow_mut().entry(container.to_owned()).or_insert_with(now),
            State::Ready => {
                let since = self.started_at.borrow_mut().remove(container);
                let taken = since.map_or(0.0, |since| (now() - since).as_secs_f64());
                self.startups.get_or_create(&vec![("container", container.to_owned())]).set(taken);
            }
            _ => {}
        }
    }

    pub(crate) fn record_probe(&self, container: &str, success: bool, duration: Duration) {
        let outcome = if success { "success" } else { "failure" };
        let labels = vec![("container", container.to_owned()), ("outcome", outcome.to_owned())];
        self.probes.get_or_create(&labels).observe(duration.as_secs_f64());
    }

    pub(crate) fn record_patch(&self, success: bool) {
        let result = if success { "ok" } else { "error" };
        self.patches.get_or_create(&vec![("result", result.to_owned())]).inc();
    }

    fn render(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut page, &self.registry);
        page
    }
}

/// Serves the metrics to at most [`CLIENTS_MAX`] clients at once.
pub(crate) async fn serve(listener: TcpListener, metrics: Rc<Metrics>) {
    let slots = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let metrics = Rc::clone(&metrics);
        let service = service_fn(move |request: Request<Incoming>| {
            let (status, body) = match (request.method(), request.uri().path()) {
                (&Method::GET, "/metrics") => (StatusCode::OK, metrics.render()),
                (&Method::GET, _) => (StatusCode::NOT_FOUND, "metrics are at /metrics\n".to_owned()),
                _ => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
            };
            let mut response = Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        tokio::task::spawn_local(async move {
            let mut server = http1::Builder::new();
            let server = server.header_read_timeout(None).keep_alive(false).max_buf_size(REQUEST_MAX);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CLIENT_TIMEOUT, connection).await;
            drop(slot);
        });
    }
}

//! The HTTP port: `/healthz`, `/readyz`, `/metrics`.

use crate::http::{Reply, TEXT, accept, reply};
use crate::state::State;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::timeout;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Time limit for a connection, which serves one request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit on concurrent clients. The usual clients are a kubelet and one or two scrapers.
const CLIENTS_MAX: usize = 128;

pub(crate) async fn serve(state: Arc<State>, listener: TcpListener) {
    let mut clients = VecDeque::<AbortHandle>::new();
    loop {
        let stream = TokioIo::new(accept(&listener).await);
        let state = Arc::clone(&state);
        // Close the oldest connection. Otherwise, silent clients could block the kubelet's probes.
        if clients.len() == CLIENTS_MAX
            && let Some(oldest) = clients.pop_front()
        {
            oldest.abort();
        }
        let client = tokio::spawn(async move {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&state, &request)));
            let mut server = http1::Builder::new();
            let server = server.header_read_timeout(None).keep_alive(false);
            let _ = timeout(CLIENT_TIMEOUT, server.serve_connection(stream, service)).await;
        });
        clients.push_back(client.abort_handle());
    }
}

fn answer(state: &State, request: &Request<Incoming>) -> Reply {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => reply(StatusCode::OK, TEXT, "ok\n"),
        (&Method::GET | &Method::HEAD, "/readyz") => match state.unready_reason() {
            None => reply(StatusCode::OK, TEXT, "ok\n"),
            Some(why) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        (&Method::GET, "/metrics") => reply(StatusCode::OK, METRICS_TYPE, state.metrics.render()),
        (&Method::GET | &Method::HEAD, _) => {
            reply(StatusCode::NOT_FOUND, TEXT, "not found; use /healthz, /readyz or /metrics\n")
        }
        _ => reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET\n"),
    }
}

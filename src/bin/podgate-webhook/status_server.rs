//! The HTTP port: `/healthz`, `/readyz`, `/metrics`.

use crate::http::{Reply, TEXT, accept, reply};
use crate::state::State;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Time limit for a connection, which serves one request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on concurrent clients: usually a kubelet and one or two scrapers.
const CLIENTS_MAX: usize = 16;

pub(crate) async fn serve(state: Arc<State>, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(CLIENTS_MAX));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let stream = TokioIo::new(accept(&listener).await);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&state, &request)));
            let mut server = http1::Builder::new();
            let server = server.header_read_timeout(None).keep_alive(false);
            let _ = timeout(CLIENT_TIMEOUT, server.serve_connection(stream, service)).await;
            drop(slot);
        });
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

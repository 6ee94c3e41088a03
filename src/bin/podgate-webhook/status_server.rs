//! The HTTP port: `/healthz`, `/readyz`, `/metrics`. Helpers for both ports.

use crate::state::State;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::warn;

pub(crate) type Reply = Response<Full<Bytes>>;
pub(crate) const TEXT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";
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
        (&Method::GET | &Method::HEAD, "/healthz") => reply(StatusCode::OK, TEXT_CONTENT_TYPE, "ok\n"),
        (&Method::GET | &Method::HEAD, "/readyz") => match state.unready_reason() {
            None => reply(StatusCode::OK, TEXT_CONTENT_TYPE, "ok\n"),
            Some(why) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT_CONTENT_TYPE, format!("{why}\n")),
        },
        (&Method::GET, "/metrics") => reply(StatusCode::OK, METRICS_TYPE, state.metrics.render()),
        (&Method::GET | &Method::HEAD, _) => {
            reply(StatusCode::NOT_FOUND, TEXT_CONTENT_TYPE, "not found; use /healthz, /readyz or /metrics\n")
        }
        _ => reply(StatusCode::METHOD_NOT_ALLOWED, TEXT_CONTENT_TYPE, "use GET\n"),
    }
}

pub(crate) fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// Waits for a connection. Retries after an error, for example for lack of file descriptors.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => warn!(%error, "cannot accept a connection"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

//! The plain port: `/healthz`, `/readyz`, `/metrics`.

use crate::state::State;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

/// How long a client may take over its request.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// How many at a time: a kubelet and a scraper or two.
const CLIENTS: usize = 16;

/// Serves for ever.
pub(crate) async fn serve(state: Arc<State>, listener: TcpListener) {
    let seats = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "status port: can't accept");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let state = Arc::clone(&state);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&state, &request);
            async move { Ok::<_, Infallible>(answer) }
        });
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            let server = server.timer(TokioTimer::new()).header_read_timeout(CLIENT_LIMIT).keep_alive(false);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CLIENT_LIMIT, connection).await;
            drop(seat);
        });
    }
}

fn answer(state: &State, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let text = "text/plain; charset=utf-8";
    let metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, text, "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/readyz") => match state.not_ready() {
            None => (StatusCode::OK, text, "ok\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, text, format!("{why}\n")),
        },
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics, state.metrics.page()),
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, text, "there are /healthz, /readyz and /metrics\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, text, "GET only\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

//! HTTP server for the sidecar's metrics. By default, the sidecar opens no port.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

/// Time limit for the whole exchange with a client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENTS_MAX: usize = 8;
/// Limit on the size of a request's head, in bytes. Without this limit, the clients could fill the sidecar's memory.
const REQUEST_MAX: usize = 8192;
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers GET requests with `respond`, which gets the request's path. At most [`CLIENTS_MAX`] clients are served at
/// once.
pub(crate) async fn serve(listener: TcpListener, respond: impl Fn(&str) -> (StatusCode, String) + Clone + 'static) {
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
        let respond = respond.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (status, body) = match *request.method() {
                Method::GET => respond(request.uri().path()),
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

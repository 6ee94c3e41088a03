//! HTTP helpers for both ports.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::warn;

pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

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

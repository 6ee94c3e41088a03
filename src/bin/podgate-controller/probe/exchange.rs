//! Sends one request by HTTP/1.1 or HTTP/2, reads the response, and closes the connection.

use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use podgate::core::text::error_chain;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{LocalSet, spawn_local};

/// Size limit for a response head and for read-ahead, in bytes. The kubelet allows 10 MiB, but the sidecar must use
/// only a few MiB of memory in total.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Limit on the number of response headers. hyper's default is 100; the kubelet has no limit.
const MAX_HEADERS: usize = 256;

/// HTTP/2's default window, in bytes. The window limits the unread data in flight.
const HTTP2_WINDOW: u32 = 65_535;

/// Sends `request` by HTTP/1.1 and passes the response to `read`. Accepts malformed headers, as far as hyper allows,
/// because the kubelet's client accepts them too.
pub(super) async fn send_http1<T, R>(
    io: T,
    request: Request<Full<Bytes>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, String>,
) -> Result<R, String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .title_case_headers(true)
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|error| error_chain(&error))?;
    drive(connection, async move || sender.send_request(request).await, read).await
}

/// Sends `request` by HTTP/2 with prior knowledge and passes the response to `read`.
pub(super) async fn send_http2<T, R>(
    io: T,
    request: Request<Full<Bytes>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, String>,
) -> Result<R, String>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let exchange = async {
        let (mut sender, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(HTTP2_WINDOW)
            .initial_connection_window_size(HTTP2_WINDOW)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| error_chain(&error))?;
        let result = drive(connection, async move || sender.send_request(request).await, read).await;
        // Let hyper's own task run once, so that the task can send GOAWAY and close_notify.
        tokio::task::yield_now().await;
        result
    };
    // Hyper's tasks end together with this `LocalSet`. Otherwise, a server that does not read could keep a connection
    // and its task open forever.
    LocalSet::new().run_until(exchange).await
}

/// Sends a request and reads the response while `connection` transfers the data.
async fn drive<R, E>(
    connection: impl Future<Output = Result<(), E>>,
    send: impl AsyncFnOnce() -> hyper::Result<Response<Incoming>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, String>,
) -> Result<R, String> {
    let mut connection = pin!(connection);
    {
        let mut exchange = pin!(async { read(send().await.map_err(|error| error_chain(&error))?).await });
        tokio::select! {
            biased;
            result = &mut exchange => result,
            // The connection may close before `exchange` has read everything. `exchange` then gets the connection's
            // error.
            _ = &mut connection => return exchange.await,
        }
    }
    .inspect(|_| {
        // A connection without a request closes itself with one write and a shutdown. Do not wait for the server.
        let _ = connection.now_or_never();
    })
}

/// Executor that runs hyper's tasks in the current `LocalSet`.
#[derive(Clone)]
pub(super) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

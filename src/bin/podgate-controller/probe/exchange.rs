//! One request and its answer, by HTTP/1.1 or HTTP/2, on a connection that ends with them.

use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use podgate::core::text::error_chain;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// Bound on an answer's head, and on what is read ahead. The kubelet's is 10 MiB, which a sidecar of a few MiB can't afford.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Bound on the number of an answer's headers; hyper's own is 100, the kubelet has none.
const MAX_HEADERS: usize = 256;

/// HTTP/2's smallest: no more than this can be under way to us unread.
const HTTP2_WINDOW: u32 = 65_535;

/// Sends `request` by HTTP/1.1 and hands the answer to `read`.
///
/// As lenient as the kubelet's client where hyper can be.
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
    drive(connection, async move || {
        read(sender.send_request(request).await.map_err(|error| error_chain(&error))?).await
    })
    .await
}

/// Sends `request` by HTTP/2, without asking whether the server speaks it, and hands the answer to `read`.
pub(super) async fn send_http2<T, R>(
    io: T,
    request: Request<Full<Bytes>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, String>,
) -> Result<R, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tasks = HyperTasks::default();
    let _end = AbortOnDrop(tasks.clone());
    let (mut sender, connection) = http2::Builder::new(tasks)
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|error| error_chain(&error))?;
    let result = drive(connection, async move || {
        read(sender.send_request(request).await.map_err(|error| error_chain(&error))?).await
    })
    .await;
    // One turn for hyper's own task, to say goodbye (GOAWAY, close_notify).
    tokio::task::yield_now().await;
    result
}

/// Runs `exchange` while `connection` moves its bytes.
async fn drive<R, E>(
    connection: impl Future<Output = Result<(), E>>,
    exchange: impl AsyncFnOnce() -> Result<R, String>,
) -> Result<R, String> {
    let mut connection = pin!(connection);
    {
        let mut exchange = pin!(exchange());
        tokio::select! {
            biased;
            result = &mut exchange => result,
            // The connection may end before all that it brought has been read; its error reaches `exchange` too.
            _ = &mut connection => return exchange.await,
        }
    }
    .inspect(|_| {
        // With the request gone the connection closes itself: that is a write and a shutdown, never worth waiting for.
        let _ = connection.now_or_never();
    })
}

/// Runs what hyper starts, so that it can be ended with the attempt: a server that doesn't read could otherwise keep a
/// connection, and its task, for as long as it likes.
#[derive(Clone, Default)]
struct HyperTasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for HyperTasks {
    fn execute(&self, future: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(future);
    }
}

/// Ends the tasks when dropped. (They hold [`HyperTasks`] themselves, so that one's own end would never come.)
struct AbortOnDrop(HyperTasks);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

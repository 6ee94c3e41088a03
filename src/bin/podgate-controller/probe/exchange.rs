//! Sends one request by HTTP/1.1 or HTTP/2, reads the response, and closes the connection.

use crate::failure::Result;
use futures::FutureExt;
use http_body_util::Full;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use podgate::core::http_response::{Response, ResponseReader};
use podgate::core::text::error_chain;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{LocalSet, spawn_local};

/// HTTP/2's default window, in bytes. The window limits the unread data in flight.
const HTTP2_WINDOW: u32 = 65_535;

/// Sends `request` by HTTP/1.1, and reads the response.
pub(super) async fn send_http1(mut io: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> Result<Response> {
    io.write_all(request).await.map_err(|error| error_chain(&error))?;
    let (mut reader, mut buffer) = (ResponseReader::default(), [0; 4096]);
    loop {
        match io.read(&mut buffer).await {
            Ok(0) => return Ok(reader.end(None)?),
            Ok(length) => {
                if let Some(response) = reader.feed(&buffer[..length])? {
                    // Send close_notify. Do not wait for the server.
                    let _ = io.shutdown().now_or_never();
                    return Ok(response);
                }
            }
            Err(error) => return Ok(reader.end(Some(&error_chain(&error)))?),
        }
    }
}

/// Sends `request` by HTTP/2 with prior knowledge and passes the response to `read`.
pub(super) async fn send_http2<R>(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    request: Request<Full<Bytes>>,
    read: impl AsyncFnOnce(hyper::Response<Incoming>) -> Result<R>,
) -> Result<R> {
    let exchange = async {
        let (mut sender, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(HTTP2_WINDOW)
            .initial_connection_window_size(HTTP2_WINDOW)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| error_chain(&error))?;
        let mut connection = pin!(connection);
        let result = {
            let send = async move { sender.send_request(request).await.map_err(|error| error_chain(&error)) };
            let mut exchange = pin!(async { read(send.await?).await });
            tokio::select! {
                biased;
                result = &mut exchange => result,
                // The connection may close before `exchange` has read everything. `exchange` then gets the
                // connection's error.
                _ = &mut connection => exchange.await,
            }
        };
        // Let hyper's own task run once, so that the task can send GOAWAY and close_notify. Do not wait for the server.
        let _ = connection.now_or_never();
        tokio::task::yield_now().await;
        result
    };
    // Hyper's tasks end together with this `LocalSet`. Otherwise, a server that does not read could keep a connection
    // and its task open forever.
    LocalSet::new().run_until(exchange).await
}

/// Executor that runs hyper's tasks in the current `LocalSet`.
#[derive(Clone)]
pub(super) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

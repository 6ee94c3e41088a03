//! The TLS port: accepts connections and limits their number, time and memory.

use crate::activity::{ConnectionActivity, Phase};
use crate::admit;
use crate::state::State;
use crate::status_server::accept;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::io::InspectReader;
use tracing::debug;

/// Limit on connections. The API server opens one connection for each concurrent request and keeps 25 idle connections
/// open.
const CONNECTIONS_MAX: usize = 512;
/// Size limit for a request's head, in bytes.
const HEAD_MAX: usize = 16 << 10;

/// Serves until `stop` becomes true, then finishes open requests.
pub(crate) async fn serve(
    state: Arc<State>,
    config: Arc<ServerConfig>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = TlsAcceptor::from(config);
    let mut connections = JoinSet::new();
    let mut open = HashMap::new();
    loop {
        state.metrics.connections.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
        let stream = tokio::select! {
            stream = accept(&listener), if open.len() < CONNECTIONS_MAX => stream,
            Some(ended) = connections.join_next_with_id() => {
                open.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
                continue;
            }
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let activity = Arc::new(ConnectionActivity::new());
        let connection =
            serve_connection(Arc::clone(&state), acceptor.clone(), stream, Arc::clone(&activity), stop.clone());
        let task = connections.spawn(connection);
        open.insert(task.id(), (task, activity));
        // Close the connection with the lowest eviction rank. Otherwise, slow or idle clients could block the API
        // server.
        if open.len() == CONNECTIONS_MAX {
            let evictable = open.values().filter_map(|(task, activity)| Some((activity.eviction_rank()?, task)));
            if let Some((_, task)) = evictable.min_by_key(|(rank, _)| *rank) {
                task.abort();
                state.metrics.record_failed_connection("crowded-out");
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection(
    state: Arc<State>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    activity: Arc<ConnectionActivity>,
    mut stop: watch::Receiver<bool>,
) {
    // A response is one small write, so do not delay it.
    let _ = stream.set_nodelay(true);
    // Poll the handshake first, so that a client whose bytes have arrived in time does not fail if this task runs late.
    let handshake = tokio::select! {
        biased;
        handshake = acceptor.accept(stream) => handshake,
        _ = activity.wait_for_timeout() => return state.metrics.record_failed_connection("handshake-timeout"),
    };
    let stream = match handshake {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%error, "TLS handshake failed");
            return state.metrics.record_failed_connection("handshake");
        }
    };
    activity.set(Phase::Idle);
    let stream = InspectReader::new(stream, |_: &[u8]| activity.start_head_if_idle());
    let service = service_fn(async |request| {
        activity.set(Phase::Body);
        let response = admit::answer(&state, request, &activity).await;
        activity.set(Phase::Idle);
        Ok::<_, Infallible>(response)
    });
    // Serve only HTTP/1.1. The API server uses only HTTP/1.1 for webhooks, to spread its requests over the replicas.
    let mut server = http1::Builder::new();
    // `ConnectionActivity` enforces the time limits instead of hyper.
    server.header_read_timeout(None).max_buf_size(HEAD_MAX);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        phase = activity.wait_for_timeout() => {
            if phase == Phase::Head {
                state.metrics.record_failed_connection("broken-off");
            }
            return;
        }
        () = async { drop(stop.wait_for(|stop| *stop).await) } => {
            // Do not let hyper wait for the rest of an incomplete head.
            if activity.phase() == Phase::Head {
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection failed");
        state.metrics.record_failed_connection(if error.is_parse() { "bad-request" } else { "broken-off" });
    }
}

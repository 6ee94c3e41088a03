//! The TLS port: connections, and what each may cost.

use super::State;
use super::admit;
use super::timed::{Pulse, Timed};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

/// For the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Most connections. The API server opens as many as it has requests at a time, and keeps 25 of them.
const CONNECTIONS: usize = 512;
/// For a request's head, in bytes.
const HEAD_MAX: usize = 16 << 10;

/// Serves until `stop` turns true, then finishes what has begun.
pub(super) async fn serve(
    state: Arc<State>,
    config: Arc<ServerConfig>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = TlsAcceptor::from(config);
    let mut connections = JoinSet::new();
    let mut pulses: BTreeMap<u64, Arc<Pulse>> = BTreeMap::new();
    let mut next = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => accepted,
            Some(ended) = connections.join_next() => {
                if let Ok(number) = ended {
                    pulses.remove(&number);
                }
                state.metrics.connections.set(i64::try_from(connections.len()).unwrap_or(i64::MAX));
                continue;
            }
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "can't accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        next += 1;
        let (number, pulse) = (next, Pulse::new());
        pulses.insert(number, Arc::clone(&pulse));
        let (state, acceptor, stop) = (Arc::clone(&state), acceptor.clone(), stop.clone());
        state.metrics.connections.inc();
        connections.spawn(async move {
            connection(&state, &acceptor, stream, &pulse, stop).await;
            number
        });
        // Room for the next one: nobody can keep the API server out by holding connections.
        if connections.len() == CONNECTIONS {
            let useless = pulses.values().filter_map(|pulse| Some((pulse.useless_since()?, pulse)));
            if let Some((_, pulse)) = useless.min_by_key(|(since, _)| *since) {
                pulse.leave.notify_one();
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    state: &Arc<State>,
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    pulse: &Arc<Pulse>,
    mut stop: watch::Receiver<bool>,
) {
    // An answer is one small write.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => handshake,
        () = pulse.leave.notified() => return state.metrics.connection_failed("crowded-out"),
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(%error, "TLS handshake");
            return state.metrics.connection_failed("handshake");
        }
        Err(_) => return state.metrics.connection_failed("handshake-timeout"),
    };
    let service = service_fn(|request| {
        let (state, pulse) = (Arc::clone(state), Arc::clone(pulse));
        async move {
            pulse.begin();
            let response = admit::answer(&state, request).await;
            pulse.end();
            Ok::<_, Infallible>(response)
        }
    });
    // HTTP/1.1 alone: the API server speaks nothing else to webhooks, to spread its requests over the replicas.
    let mut server = http1::Builder::new();
    // Its time limits are those of `Timed`.
    server.header_read_timeout(None).max_buf_size(HEAD_MAX);
    let stream = TokioIo::new(Timed::new(stream, Arc::clone(pulse)));
    let mut connection = pin!(server.serve_connection(stream, service));
    let (mut stopping, mut leaving) = (false, false);
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                if pulse.has_nothing_yet() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
            }
            () = pulse.leave.notified(), if !leaving => {
                leaving = true;
                if pulse.has_nothing_yet() {
                    return state.metrics.connection_failed("crowded-out");
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection");
        state.metrics.connection_failed(if error.is_parse() { "bad-request" } else { "broken-off" });
    }
}

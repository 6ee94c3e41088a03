//! Probes containers from outside, like the kubelet (`pkg/kubelet/prober/prober.go`, `pkg/probe/{http,tcp,grpc}`).
//!
//! Every attempt opens its own connection and leaves no socket and no task behind. Thresholds and delays are in
//! [`podgate::core::probe`].
//!
//! # Caveats
//! The C library resolves a host name on a thread of the runtime's pool. The time limit ends the attempt, but the
//! thread keeps running until the resolver times out.

mod exchange;
mod grpc;
mod http;
pub(crate) mod prober;
mod tls;

#[cfg(test)]
mod tests;

use crate::clock::now;
use crate::failure::Result;
use podgate::core::container::{Container, Handler, Probe};
use podgate::core::http::Outcome;
use podgate::core::http_response::Response;
use podgate::core::text::{error_chain, one_line};
use podgate::edge::exchange::{Exchange, NO_ANSWER_IN_TIME};
use rustix::event::PollFlags;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest, Join, Take, join};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout_at;

/// Limit on the bytes that are read from a server. Enough for certificates, a response head of 32 KiB (`HEAD_MAX`), the
/// beginning of a body, and what hyper reads ahead.
const MAX_READ_BYTES: u64 = 128 * 1024;

/// A TCP connection that reads at most [`MAX_READ_BYTES`].
///
/// The time limit alone is not enough. Hyper skips interim responses, pings and empty records. A flood of them would
/// keep the sidecar's only thread busy until the time limit, which would delay all other probes.
type BoundedStream = Join<Take<OwnedReadHalf>, OwnedWriteHalf>;

/// Length limit for each text of an [`Outcome`], in bytes.
const MAX_LINE_BYTES: usize = 120;

/// Makes one attempt of the container's `probe`, within the probe's `timeoutSeconds`.
///
/// Needs a tokio runtime with I/O and time. Cancel-safe.
async fn attempt(container: &Container, probe: &Probe, pod_ip: IpAddr) -> Outcome {
    let limit = Duration::from_secs(probe.timeout_seconds.into());
    let verdict = tokio::time::timeout(limit, run_handler(container, probe, pod_ip, now() + limit)).await;
    let verdict = verdict
        .unwrap_or_else(|_| Err(NO_ANSWER_IN_TIME.into()))
        .unwrap_or_else(|error| Outcome::failure(error.to_string()));
    let short = |text: String| one_line(&text, MAX_LINE_BYTES);
    Outcome { detail: short(verdict.detail), warning: verdict.warning.map(short), ..verdict }
}

async fn run_handler(container: &Container, probe: &Probe, pod_ip: IpAddr, deadline: Instant) -> Result<Outcome> {
    let host = probe.handler.host().map_or_else(|| pod_ip.to_string(), str::to_owned);
    let Some(port) = container.probe_port(probe).filter(|port| *port != 0) else {
        return Ok(Outcome::discarded(format!("container {} has no valid port for this probe", container.name)));
    };
    match &probe.handler {
        Handler::HttpGet(get) => http::attempt(get, &host, port, deadline).await,
        Handler::Grpc(ask) => grpc::attempt(ask, &host, port).await,
        Handler::TcpSocket(_) | Handler::Exec(_) => {
            run_exchange(&host, port, None, deadline).await?;
            Ok(Outcome::success(format!("{host}:{port} accepts connections"), None))
        }
    }
}

/// Connects to `host` without TLS and, with a `request`, sends it and reads the response.
pub(crate) async fn run_exchange(host: &str, port: u16, request: Option<Vec<u8>>, end: Instant) -> Result<Response> {
    let failed = |error: std::io::Error| format!("{host}:{port}: {}", error_chain(&error));
    let addresses = lookup_host((host, port)).await.map_err(failed)?;
    let mut exchange = Exchange::new(addresses.map(|address| address.ip()).collect(), port, request, end);
    loop {
        if let Some(ended) = exchange.advance(now()) {
            return Ok(ended?);
        }
        let Some((socket, events)) = exchange.socket() else { continue };
        let interest = if events == PollFlags::OUT { Interest::WRITABLE } else { Interest::READABLE };
        #[expect(deprecated, reason = "sound here: the exchange keeps its descriptor while it is registered")]
        let socket = AsyncFd::with_interest(socket, interest).map_err(failed)?;
        let _ = timeout_at(exchange.due.into(), socket.ready(interest)).await;
    }
}

/// Connects to `host`: a host name, or an IP address without brackets.
async fn connect(host: &str, port: u16) -> Result<BoundedStream> {
    let stream =
        TcpStream::connect((host, port)).await.map_err(|error| format!("{host}:{port}: {}", error_chain(&error)))?;
    // HTTP/2 writes in several steps. Nagle's algorithm would delay each write until the server acknowledges the
    // previous write. If `set_nodelay` fails, the probe is only slower.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    Ok(join(reader.take(MAX_READ_BYTES), writer))
}

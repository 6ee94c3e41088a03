//! One attempt of a probe of any kind.

use super::{Outcome, grpc, http, run_exchange};
use crate::clock::now;
use crate::failure::Result;
use podgate::core::container::{Container, Handler, HttpGet, PortRef, Probe, TcpSocket};
use podgate::core::text::one_line;
use podgate::edge::exchange::NO_ANSWER;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Length limit for each text of an [`Outcome`], in bytes.
pub(super) const MAX_LINE_BYTES: usize = 120;

/// Makes one attempt of the container's `probe`, within the probe's `timeoutSeconds`.
///
/// Needs a tokio runtime with I/O and time. Cancel-safe.
pub(crate) async fn attempt(container: &Container, probe: &Probe, pod_ip: IpAddr) -> Outcome {
    let limit = Duration::from_secs(probe.timeout_seconds.into());
    let verdict = tokio::time::timeout(limit, run_handler(container, probe, pod_ip, now() + limit)).await;
    let verdict =
        verdict.unwrap_or_else(|_| Err(NO_ANSWER.into())).unwrap_or_else(|error| Outcome::failure(error.to_string()));
    let short = |text: String| one_line(&text, MAX_LINE_BYTES);
    Outcome { detail: short(verdict.detail), warning: verdict.warning.map(short), ..verdict }
}

async fn run_handler(container: &Container, probe: &Probe, pod_ip: IpAddr, deadline: Instant) -> Result<Outcome> {
    let host = probe.handler.host().map_or_else(|| pod_ip.to_string(), str::to_owned);
    let port = match &probe.handler {
        Handler::Exec(_) => Err("podgate cannot run an exec probe from outside its container".to_owned()),
        Handler::HttpGet(HttpGet { port, .. }) | Handler::TcpSocket(TcpSocket { port, .. }) => {
            resolve_port(container, port)
        }
        Handler::Grpc(ask) => check_port(ask.port),
    };
    match (&probe.handler, port) {
        (_, Err(why)) => Ok(Outcome::discarded(why)),
        (Handler::HttpGet(get), Ok(port)) => http::attempt(get, &host, port, deadline).await,
        (Handler::Grpc(ask), Ok(port)) => grpc::attempt(ask, &host, port).await,
        (_, Ok(port)) => {
            run_exchange(&host, port, None, deadline).await?;
            Ok(Outcome::success(format!("{host}:{port} accepts connections"), None))
        }
    }
}

fn resolve_port(container: &Container, wanted: &PortRef) -> Result<u16, String> {
    match (container.resolve_port(wanted), wanted) {
        (Some(found), _) => check_port(found),
        (None, PortRef::Name(name)) => Err(format!("container {} has no port named {name:?}", container.name)),
        (None, PortRef::Number(wrong)) => Err(format!("{wrong} is not a valid port")),
    }
}

fn check_port(port: u16) -> Result<u16, String> {
    if port == 0 { Err("0 is not a valid port".to_owned()) } else { Ok(port) }
}

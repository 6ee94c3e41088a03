//! One attempt of a probe of any kind.

use super::{AttemptResult, Outcome, connect, grpc, http};
use podgate::core::container::{Container, Handler, PortRef, Probe};
use podgate::core::text::one_line;
use std::net::IpAddr;
use std::time::Duration;

/// Length limit for each text of an [`Outcome`], in bytes.
pub(super) const MAX_LINE_BYTES: usize = 120;

/// Makes one attempt of the container's `probe`, within the probe's `timeoutSeconds`.
///
/// Needs a tokio runtime with I/O and time. Cancel-safe.
pub(crate) async fn attempt(container: &Container, probe: &Probe, pod_ip: IpAddr) -> Outcome {
    let limit = Duration::from_secs(probe.timeout_seconds.into());
    let verdict = tokio::time::timeout(limit, run_handler(container, probe, pod_ip)).await;
    let verdict = verdict.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())));
    let Outcome { success, detail, warning } = verdict.unwrap_or_else(Outcome::failure);
    let short = |text: String| one_line(&text, MAX_LINE_BYTES);
    Outcome { success, detail: short(detail), warning: warning.map(short) }
}

async fn run_handler(container: &Container, probe: &Probe, pod_ip: IpAddr) -> AttemptResult {
    let host = probe.handler.host().map_or_else(|| pod_ip.to_string(), str::to_owned);
    match &probe.handler {
        Handler::Exec(_) => Err("podgate cannot run an exec probe from outside its container".to_owned()),
        Handler::HttpGet(get) => http::attempt(get, &host, resolve_port(container, &get.port)?).await,
        Handler::TcpSocket(socket) => {
            let port = resolve_port(container, &socket.port)?;
            connect(&host, port).await?;
            Ok(Outcome::success(format!("{host}:{port} accepts connections"), None))
        }
        Handler::Grpc(ask) => grpc::attempt(ask, &host, check_port(ask.port)?).await,
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

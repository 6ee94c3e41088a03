//! One attempt of a probe from outside its container, as the kubelet would make it
//! (`pkg/kubelet/prober/prober.go`, `pkg/probe/{http,tcp,grpc}`).
//!
//! | module | holds |
//! |---|---|
//! | [`http`] | `httpGet`: request, redirects, verdict |
//! | [`tcp`] | `tcpSocket` |
//! | [`grpc`] | `grpc`: the health service, encoded by hand |
//! | [`url`] | what of a URL a probe and its redirects need |
//! | [`tls`] | TLS that trusts anyone |
//! | [`bounded`] | a connection on which the peer can't say too much |
//! | [`exchange`] | one request and its answer by HTTP/1 or HTTP/2 |
//! | [`listening`] | the kernel's word on whether anything listens on a port |
//!
//! Every attempt opens a connection of its own and leaves nothing behind: no socket, no task. What attempts amount to
//! (thresholds, delays) is [`podgate::core::probe`]'s matter.
//!
//! # Caveats
//! A `host` that is a name is looked up by the C library, on a thread of the runtime's pool: the time limit ends the
//! attempt, but the thread stays until the resolver gives up.

mod alarm;
mod bounded;
mod exchange;
mod grpc;
mod http;
pub(crate) mod listening;
pub(crate) mod probing;
mod tcp;
mod tls;
mod url;

#[cfg(test)]
mod tests;

use bounded::Bounded;
use podgate::core::container::{Container, Handler, PortRef, Probe};
use podgate::core::text::{error_chain, one_line};
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// Servers that leave probes out of their access log look for the kubelet's `kube-probe/`.
const USER_AGENT: &str = concat!("kube-probe/podgate-", env!("CARGO_PKG_VERSION"));

/// Longest line of an [`Outcome`], in bytes.
const LINE: usize = 120;

/// What one attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the kubelet would call it a success.
    pub(crate) success: bool,
    /// What happened, in one line of at most 120 bytes; nothing of an answer's body.
    pub(crate) detail: String,
    /// Why the success is a doubtful one: the kubelet reports these as events of type `ProbeWarning`.
    pub(crate) warning: Option<String>,
}

/// Success.
struct Passed {
    detail: String,
    warning: Option<String>,
}

/// Success, or a line that says what failed.
type Verdict = Result<Passed, String>;

/// Makes one attempt of `probe`, which is one of `container`'s; takes at most the probe's `timeoutSeconds`.
///
/// Has to run inside a tokio runtime with I/O and time. May be dropped at any point.
pub(crate) async fn attempt(container: &Container, probe: &Probe, pod_ip: IpAddr) -> Outcome {
    let limit = Duration::from_secs(u64::from(probe.timeout_seconds.max(1)));
    let verdict = match tokio::time::timeout(limit, run(container, probe, pod_ip)).await {
        Ok(verdict) => verdict,
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    };
    match verdict {
        Ok(passed) => Outcome {
            success: true,
            detail: one_line(&passed.detail, LINE),
            warning: passed.warning.as_deref().map(|text| one_line(text, LINE)),
        },
        Err(detail) => Outcome { success: false, detail: one_line(&detail, LINE), warning: None },
    }
}

async fn run(container: &Container, probe: &Probe, pod_ip: IpAddr) -> Verdict {
    match &probe.handler {
        Handler::Exec(_) => Err("an exec probe can't be run from outside its container".to_owned()),
        Handler::HttpGet(get) => http::attempt(get, port(container, &get.port)?, pod_ip).await,
        Handler::TcpSocket(socket) => {
            tcp::attempt(socket.host.as_deref(), port(container, &socket.port)?, pod_ip).await
        }
        Handler::Grpc(ask) => {
            grpc::attempt(ask.service.as_deref().unwrap_or_default(), number(ask.port)?, pod_ip).await
        }
    }
}

fn port(container: &Container, wanted: &PortRef) -> Result<u16, String> {
    match (container.port(wanted), wanted) {
        (Some(found), _) => number(found),
        (None, PortRef::Name(name)) => Err(format!("container {} has no port named {name:?}", container.name)),
        (None, PortRef::Number(wrong)) => Err(format!("{wrong} is no port")),
    }
}

fn number(port: u16) -> Result<u16, String> {
    if port == 0 { Err("0 is no port to ask".to_owned()) } else { Ok(port) }
}

/// The host that a handler names; the pod's IP where it names none.
fn host_or(host: Option<&str>, pod_ip: IpAddr) -> String {
    host.filter(|host| !host.is_empty()).map_or_else(|| pod_ip.to_string(), str::to_owned)
}

/// Connects to `host`, a name or an address without brackets.
async fn connect(host: &str, port: u16) -> Result<Bounded, String> {
    let stream =
        TcpStream::connect((host, port)).await.map_err(|error| format!("{host}:{port}: {}", error_chain(&error)))?;
    // HTTP/2 writes in several steps: Nagle's algorithm would make each wait for the peer's delayed acknowledgement.
    // Where it can't be set, the probe is only slower.
    let _ = stream.set_nodelay(true);
    Ok(Bounded::new(stream))
}

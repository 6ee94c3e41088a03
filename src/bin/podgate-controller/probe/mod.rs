//! One attempt of a probe from outside its container, as the kubelet would make it
//! (`pkg/kubelet/prober/prober.go`, `pkg/probe/{http,tcp,grpc}`).
//!
//! | module | holds |
//! |---|---|
//! | [`attempt`] | the attempt as a whole: its time limit, its port, its outcome; `tcpSocket` |
//! | [`http`] | `httpGet`: request, redirects, verdict |
//! | [`grpc`] | `grpc`: the health service, encoded by hand |
//! | [`url`] | what of a URL a probe and its redirects need |
//! | [`tls`] | TLS that trusts anyone |
//! | [`bounded`] | a connection on which the peer can't say too much |
//! | [`exchange`] | one request and its answer by HTTP/1 or HTTP/2 |
//! | [`sock_diag`] | the kernel's word on whether anything listens on a port |
//!
//! Every attempt opens a connection of its own and leaves nothing behind: no socket, no task. What attempts amount to
//! (thresholds, delays) is [`podgate::core::probe`]'s matter.
//!
//! # Caveats
//! A `host` that is a name is looked up by the C library, on a thread of the runtime's pool: the time limit ends the
//! attempt, but the thread stays until the resolver gives up.

mod attempt;
mod bounded;
mod exchange;
mod grpc;
mod http;
mod precise_timer;
pub(crate) mod prober;
pub(crate) mod sock_diag;
mod tls;
mod url;

#[cfg(test)]
mod tests;

use bounded::BoundedStream;
use podgate::core::text::error_chain;
use std::net::IpAddr;
use tokio::net::TcpStream;

/// Servers that leave probes out of their access log look for the kubelet's `kube-probe/`.
const USER_AGENT: &str = concat!("kube-probe/podgate-", env!("CARGO_PKG_VERSION"));

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

struct Success {
    detail: String,
    warning: Option<String>,
}

/// Success, or a line that says what failed.
type AttemptResult = Result<Success, String>;

/// The host that a handler names; the pod's IP where it names none.
fn host_or_pod_ip(host: Option<&str>, pod_ip: IpAddr) -> String {
    host.filter(|host| !host.is_empty()).map_or_else(|| pod_ip.to_string(), str::to_owned)
}

/// Connects to `host`, a name or an address without brackets.
async fn connect(host: &str, port: u16) -> Result<BoundedStream, String> {
    let stream =
        TcpStream::connect((host, port)).await.map_err(|error| format!("{host}:{port}: {}", error_chain(&error)))?;
    // HTTP/2 writes in several steps: Nagle's algorithm would make each wait for the peer's delayed acknowledgement.
    // Where it can't be set, the probe is only slower.
    let _ = stream.set_nodelay(true);
    Ok(BoundedStream::new(stream))
}

//! Probes containers from outside, like the kubelet (`pkg/kubelet/prober/prober.go`, `pkg/probe/{http,tcp,grpc}`).
//!
//! Every attempt opens its own connection and leaves no socket and no task behind. Thresholds and delays are in
//! [`podgate::core::probe`].
//!
//! # Caveats
//! The C library resolves a host name on a thread of the runtime's pool. The time limit ends the attempt, but the
//! thread keeps running until the resolver times out.

mod attempt;
mod exchange;
mod grpc;
mod http;
pub(crate) mod precise_timer;
pub(crate) mod prober;
pub(crate) mod quit;
pub(crate) mod sock_diag;
mod tls;
mod url;

#[cfg(test)]
mod tests;

use podgate::core::text::error_chain;
use tokio::io::{AsyncReadExt, Join, Take, join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// User agent of probes. Starts with the kubelet's `kube-probe/`, because some servers exclude that prefix from their
/// access log.
const USER_AGENT: &str = concat!("kube-probe/podgate-", env!("CARGO_PKG_VERSION"));

/// Limit on the bytes that are read from a server. Enough for certificates, a response head (32 KiB, hyper's limit),
/// the beginning of a body, and what hyper reads ahead.
const MAX_READ_BYTES: u64 = 128 * 1024;

/// A TCP connection that reads at most [`MAX_READ_BYTES`].
///
/// The time limit alone is not enough. Hyper skips interim responses, pings and empty records. A flood of them would
/// keep the sidecar's only thread busy until the time limit, which would delay all other probes.
type BoundedStream = Join<Take<OwnedReadHalf>, OwnedWriteHalf>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// True if the kubelet would count the attempt as a success.
    pub(crate) success: bool,
    /// Description in one line of at most 120 bytes, without any content of the response's body.
    pub(crate) detail: String,
    /// Warning about a success. The kubelet reports such a warning as an event of type `ProbeWarning`.
    pub(crate) warning: Option<String>,
}

impl Outcome {
    fn success(detail: String, warning: Option<String>) -> Outcome {
        Outcome { success: true, detail, warning }
    }

    fn failure(detail: String) -> Outcome {
        Outcome { success: false, detail, warning: None }
    }
}

/// Result of an attempt: the success, or a line that describes the failure.
type AttemptResult = Result<Outcome, String>;

/// Returns host and port as in a URL.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects to `host`: a host name, or an IP address without brackets.
async fn connect(host: &str, port: u16) -> Result<BoundedStream, String> {
    let stream =
        TcpStream::connect((host, port)).await.map_err(|error| format!("{host}:{port}: {}", error_chain(&error)))?;
    // HTTP/2 writes in several steps. Nagle's algorithm would delay each write until the server acknowledges the
    // previous write. If `set_nodelay` fails, the probe is only slower.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    Ok(join(reader.take(MAX_READ_BYTES), writer))
}

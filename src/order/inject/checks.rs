//! Converts probes to checks that the agent can run inside the container.

use crate::core::argv::{Argv, Check};
use crate::core::container::{Container, Handler, HttpGet, Probe, is_http};

/// Host name for a check of any container in the Pod: the containers share one network namespace. The agent tries
/// 127.0.0.1 and ::1, because a server may listen only on addresses of one family.
const LOCALHOST: &str = "localhost";

/// Returns the agent's check that has the same result as the probe; `None` if the agent cannot run the probe.
pub(super) fn agent_check(container: &Container, probe: &Probe) -> Option<Check> {
    let port = container.probe_port(probe).filter(|port| *port != 0);
    match (&probe.handler, port) {
        (Handler::Exec(exec), _) => Argv::new(exec.command.clone()).map(Check::Exec).ok(),
        (Handler::HttpGet(get), port) => http_check(get, port?).ok(),
        (Handler::TcpSocket(tcp), port) => format!("tcp://{}:{}", url_host(tcp.host.as_deref()), port?).parse().ok(),
        (Handler::Grpc(_), _) => None,
    }
}

/// Converts the `httpGet` of a probe or hook to a check of `port`.
pub(super) fn http_check(get: &HttpGet, port: u16) -> Result<Check, &'static str> {
    if !is_http(&get.scheme) {
        return Err("uses HTTPS, and the agent has no TLS");
    }
    if get.is_http2() {
        return Err("uses HTTP/2, which the agent does not support");
    }
    if !get.http_headers.is_empty() {
        return Err("sends custom headers");
    }
    let path = get.path.as_deref().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("http://{}:{port}{slash}{path}", url_host(get.host.as_deref()));
    url.parse().map_err(|_| "has a path or host that cannot be part of a URL")
}

fn url_host(host: Option<&str>) -> String {
    match host.filter(|host| !host.is_empty()) {
        None => LOCALHOST.to_owned(),
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
    }
}

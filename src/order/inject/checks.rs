//! Converts probes to checks that the agent can run inside the container.

use crate::core::argv::{Argv, Check};
use crate::core::container::{Container, Handler, HttpGet, Probe};

/// Address of every container from inside the Pod, because the containers share one network namespace.
const LOCALHOST: &str = "127.0.0.1";

/// Check by the agent in place of a probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AgentCheck {
    /// Check with the same result as the probe.
    Exact(Check),
    /// TCP check of the probe's port, with the reason why the agent cannot run the probe itself.
    PortOnly(u16, &'static str),
    /// No check is possible, with the reason.
    Unsupported(&'static str),
}

impl AgentCheck {
    /// Returns the check as the value of a flag, or `None`. With `weaker`, a TCP check can replace the probe.
    pub(super) fn url(&self, weaker: bool) -> Option<String> {
        match self {
            AgentCheck::Exact(check) => Some(check.to_string()),
            AgentCheck::PortOnly(port, _) if weaker => {
                Some(Check::Tcp { host: LOCALHOST.to_owned(), port: *port }.to_string())
            }
            AgentCheck::PortOnly(..) | AgentCheck::Unsupported(_) => None,
        }
    }
}

pub(super) fn agent_check(container: &Container, probe: &Probe) -> AgentCheck {
    let port = container.probe_port(probe).filter(|port| *port != 0);
    match (&probe.handler, port) {
        (Handler::Exec(exec), _) => match Argv::new(exec.command.clone()) {
            Ok(argv) => AgentCheck::Exact(Check::Exec(argv)),
            Err(_) => AgentCheck::Unsupported("has an empty command"),
        },
        (_, None) => AgentCheck::Unsupported("has no known port"),
        (Handler::HttpGet(get), Some(port)) => http_check(get, port),
        (Handler::TcpSocket(tcp), Some(port)) => {
            let url = format!("tcp://{}:{port}", url_host(tcp.host.as_deref()));
            url.parse().map_or(AgentCheck::Unsupported("has an invalid host"), AgentCheck::Exact)
        }
        (Handler::Grpc(_), Some(port)) => AgentCheck::PortOnly(port, "uses gRPC"),
    }
}

/// Converts the `httpGet` of a probe or hook to a check of `port`.
pub(super) fn http_check(get: &HttpGet, port: u16) -> AgentCheck {
    if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
        return AgentCheck::PortOnly(port, "uses HTTPS, and the agent has no TLS");
    }
    if !get.http_headers.is_empty() {
        return AgentCheck::PortOnly(port, "sends custom headers");
    }
    let path = get.path.as_deref().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("http://{}:{port}{slash}{path}", url_host(get.host.as_deref()));
    url.parse().map_or(AgentCheck::PortOnly(port, "has a path or host that cannot be part of a URL"), AgentCheck::Exact)
}

fn url_host(host: Option<&str>) -> String {
    match host.filter(|host| !host.is_empty()) {
        None => LOCALHOST.to_owned(),
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
    }
}

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
        (Handler::Exec(exec), _) => match argv(&exec.command) {
            Some(argv) => AgentCheck::Exact(Check::Exec(argv)),
            None => AgentCheck::Unsupported("its command is empty"),
        },
        (_, None) => AgentCheck::Unsupported("its port is unknown"),
        (Handler::HttpGet(get), Some(port)) => http_check(get, port),
        (Handler::TcpSocket(tcp), Some(port)) => {
            let url = format!("tcp://{}:{port}", url_host(tcp.host.as_deref()));
            url.parse().map_or(AgentCheck::Unsupported("its host is not valid"), AgentCheck::Exact)
        }
        (Handler::Grpc(_), Some(port)) => AgentCheck::PortOnly(port, "it is a gRPC probe"),
    }
}

/// Converts the `httpGet` of a probe or hook to a check of `port`.
pub(super) fn http_check(get: &HttpGet, port: u16) -> AgentCheck {
    if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
        return AgentCheck::PortOnly(port, "it uses HTTPS, and the agent has no TLS");
    }
    if !get.http_headers.is_empty() {
        return AgentCheck::PortOnly(port, "it sends custom headers");
    }
    let path = get.path.as_deref().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("http://{}:{port}{slash}{path}", url_host(get.host.as_deref()));
    url.parse().map_or(AgentCheck::PortOnly(port, "its path or host can't be written as a URL"), AgentCheck::Exact)
}

fn url_host(host: Option<&str>) -> String {
    match host.filter(|host| !host.is_empty()) {
        None => LOCALHOST.to_owned(),
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
    }
}

/// Converts words to a command that the agent can run; `None` if the words are not a valid command.
pub(super) fn argv(words: &[String]) -> Option<Argv> {
    Argv::new(words.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check_for(probe: Value) -> AgentCheck {
        let container =
            json!({"name": "a", "ports": [{"name": "web", "containerPort": 8080}], "readinessProbe": probe});
        let container: Container = serde_json::from_value(container).unwrap();
        agent_check(&container, container.readiness_probe.as_ref().unwrap())
    }

    #[test]
    fn agent_runs_the_probes_that_it_supports() {
        for (probe, url) in [
            (json!({"httpGet": {"port": "web", "path": "/x?y=1"}}), "http://127.0.0.1:8080/x?y=1"),
            (json!({"httpGet": {"port": 80, "path": "x"}}), "http://127.0.0.1:80/x"),
            (json!({"httpGet": {"port": 80, "host": "::1", "scheme": "HTTP"}}), "http://[::1]:80/"),
            (json!({"tcpSocket": {"port": "5432", "host": "localhost"}}), "tcp://localhost:5432"),
            (json!({"exec": {"command": ["pg_isready", "-q"]}}), r#"exec:["pg_isready","-q"]"#),
        ] {
            assert_eq!(check_for(probe).url(false).as_deref(), Some(url));
        }
    }

    #[test]
    fn other_probes_become_tcp_checks() {
        for probe in [
            json!({"httpGet": {"port": "web", "scheme": "HTTPS"}}),
            json!({"httpGet": {"port": "web", "httpHeaders": [{"name": "Host", "value": "x"}]}}),
            json!({"httpGet": {"port": "web", "path": "/ä b"}}),
            json!({"grpc": {"port": 8080}}),
        ] {
            let check = check_for(probe);
            assert_eq!((check.url(false), check.url(true).as_deref()), (None, Some("tcp://127.0.0.1:8080")));
        }
        assert_eq!(check_for(json!({"tcpSocket": {"port": "nameless"}})).url(true), None);
        assert_eq!(check_for(json!({"exec": {"command": []}})).url(true), None);
    }
}

//! A probe as something that the agent can look at from inside the container.

use crate::core::argv::{Argv, Check};
use crate::core::container::{Container, Handler, HttpGet, Probe};

/// Where a container is reached from within.
const LOCALHOST: &str = "127.0.0.1";

/// What the agent can make of a probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AgentCheck {
    /// The same question.
    Exact(Check),
    /// Whether anything listens on its port, since the question itself is beyond the agent: why.
    PortOnly(u16, &'static str),
    /// Nothing: why.
    Unsupported(&'static str),
}

impl AgentCheck {
    /// The check, as a flag's value; a port in place of the question if `weaker` will do.
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

/// What the agent can make of a probe of `container`.
pub(super) fn agent_check(container: &Container, probe: &Probe) -> AgentCheck {
    let port = container.probe_port(probe).filter(|port| *port != 0);
    match (&probe.handler, port) {
        (Handler::Exec(exec), _) => match argv(&exec.command) {
            Some(argv) => AgentCheck::Exact(Check::Exec(argv)),
            None => AgentCheck::Unsupported("its command is empty"),
        },
        (_, None) => AgentCheck::Unsupported("its port is not known"),
        (Handler::HttpGet(get), Some(port)) => http_check(get, port),
        (Handler::TcpSocket(tcp), Some(port)) => {
            let url = format!("tcp://{}:{port}", url_host(tcp.host.as_deref()));
            url.parse().map_or(AgentCheck::Unsupported("its host is none"), AgentCheck::Exact)
        }
        (Handler::Grpc(_), Some(port)) => AgentCheck::PortOnly(port, "it is a gRPC probe"),
    }
}

/// An `httpGet`, of a probe or of a hook.
pub(super) fn http_check(get: &HttpGet, port: u16) -> AgentCheck {
    if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
        return AgentCheck::PortOnly(port, "it asks by HTTPS, and the agent carries no TLS");
    }
    if !get.http_headers.is_empty() {
        return AgentCheck::PortOnly(port, "it sends headers of its own");
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

/// Words as a command of the agent's.
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
    fn what_the_agent_can_ask_it_asks() {
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
    fn of_the_rest_the_port_is_left() {
        for probe in [
            json!({"httpGet": {"port": "web", "scheme": "HTTPS"}}),
            json!({"httpGet": {"port": "web", "httpHeaders": [{"name": "Host", "value": "x"}]}}),
            json!({"httpGet": {"port": "web", "path": "/ä b"}}),
            json!({"grpc": {"port": 8080}}),
        ] {
            let asked = check_for(probe);
            assert_eq!((asked.url(false), asked.url(true).as_deref()), (None, Some("tcp://127.0.0.1:8080")));
        }
        assert_eq!(check_for(json!({"tcpSocket": {"port": "nameless"}})).url(true), None);
        assert_eq!(check_for(json!({"exec": {"command": []}})).url(true), None);
    }
}

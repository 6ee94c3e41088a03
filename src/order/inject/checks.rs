//! A probe as something that the agent can look at from inside the container.

use crate::core::argv::{Argv, Check};
use crate::core::container::{Container, Handler, HttpGet, Probe};

/// Where a container is reached from within.
const LOCAL: &str = "127.0.0.1";

/// What the agent can make of a probe.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// The same question.
    Same(Check),
    /// Whether anything listens on its port, since the question itself is beyond the agent: why.
    Port(u16, &'static str),
    /// Nothing: why.
    Nothing(&'static str),
}

impl Asked {
    /// The check, as a flag's value; a port in place of the question if `weaker` will do.
    pub(super) fn url(&self, weaker: bool) -> Option<String> {
        match self {
            Asked::Same(check) => Some(check.to_string()),
            Asked::Port(port, _) if weaker => Some(Check::Tcp { host: LOCAL.to_owned(), port: *port }.to_string()),
            Asked::Port(..) | Asked::Nothing(_) => None,
        }
    }
}

/// What the agent can make of a probe of `container`.
pub(super) fn of(container: &Container, probe: &Probe) -> Asked {
    let port = container.probe_port(probe).filter(|port| *port != 0);
    match (&probe.handler, port) {
        (Handler::Exec(exec), _) => match argv(&exec.command) {
            Some(argv) => Asked::Same(Check::Exec(argv)),
            None => Asked::Nothing("its command is empty"),
        },
        (_, None) => Asked::Nothing("its port is not known"),
        (Handler::HttpGet(get), Some(port)) => http(get, port),
        (Handler::TcpSocket(tcp), Some(port)) => {
            let url = format!("tcp://{}:{port}", bracketed(tcp.host.as_deref()));
            url.parse().map_or(Asked::Nothing("its host is none"), Asked::Same)
        }
        (Handler::Grpc(_), Some(port)) => Asked::Port(port, "it is a gRPC probe"),
    }
}

/// An `httpGet`, of a probe or of a hook.
pub(super) fn http(get: &HttpGet, port: u16) -> Asked {
    if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
        return Asked::Port(port, "it asks by HTTPS, and the agent carries no TLS");
    }
    if !get.http_headers.is_empty() {
        return Asked::Port(port, "it sends headers of its own");
    }
    let path = get.path.as_deref().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let url = format!("http://{}:{port}{slash}{path}", bracketed(get.host.as_deref()));
    url.parse().map_or(Asked::Port(port, "its path or host can't be written as a URL"), Asked::Same)
}

fn bracketed(host: Option<&str>) -> String {
    match host.filter(|host| !host.is_empty()) {
        None => LOCAL.to_owned(),
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

    fn asked(probe: Value) -> Asked {
        let container =
            json!({"name": "a", "ports": [{"name": "web", "containerPort": 8080}], "readinessProbe": probe});
        let container: Container = serde_json::from_value(container).unwrap();
        of(&container, container.readiness_probe.as_ref().unwrap())
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
            assert_eq!(asked(probe).url(false).as_deref(), Some(url));
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
            let asked = asked(probe);
            assert_eq!((asked.url(false), asked.url(true).as_deref()), (None, Some("tcp://127.0.0.1:8080")));
        }
        assert_eq!(asked(json!({"tcpSocket": {"port": "nameless"}})).url(true), None);
        assert_eq!(asked(json!({"exec": {"command": []}})).url(true), None);
    }
}

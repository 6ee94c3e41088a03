//! Converts probes and hooks to checks that the agent can run inside the container.

use crate::core::argv::{Argv, Check};
use crate::core::container::{Container, Handler, HttpGet, Probe, is_http};
use crate::core::url::Url;

/// Returns the agent's check that has the same result as the probe; `None` if the agent cannot run the probe.
pub fn equivalent_check(container: &Container, probe: &Probe) -> Option<Check> {
    let port = container.probe_port(probe).filter(|port| *port != 0);
    let check = match &probe.handler {
        Handler::Exec(exec) => return Argv::new(exec.command.clone()).map(Check::Exec).ok(),
        Handler::HttpGet(get) if is_http(&get.scheme) && !get.is_http2() => http_check_without_scheme(get, port?),
        Handler::TcpSocket(tcp) => Check::Tcp { host: tcp.host.clone().unwrap_or_default(), port: port? },
        Handler::HttpGet(_) | Handler::Grpc(_) => return None,
    };
    is_valid(&check).then_some(check)
}

/// Converts an `httpGet` to a check of `port`, without its scheme. A check without a host asks the Pod's IP.
pub fn http_check_without_scheme(get: &HttpGet, port: u16) -> Check {
    let host = get.host.clone().unwrap_or_default();
    let path = Url::for_probe("http", &host, port, get.path.as_deref().unwrap_or_default()).target();
    Check::Http { host, port, path, headers: get.http_headers.clone() }
}

/// Returns true if the agent can parse the check. The API does not validate the host of a probe.
pub fn is_valid(check: &Check) -> bool {
    check.to_string().parse().as_ref() == Ok(check)
}

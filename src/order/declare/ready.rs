//! Values of `ready.podgate.io/CONTAINER`: a check, or a request that only podgate's sidecar can send, such as
//! `https://localhost:8443/health, Host: shop.example`.

use crate::core::argv::{Check, ParseError};
use crate::core::container::{Container, Grpc, Handler, HttpGet, PortRef, Probe};
use crate::core::http::Header;
use crate::core::quit::is_local;

/// Check that replaces the probes of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCheck {
    /// The check as text.
    pub text: String,
    /// Check that the agent in the container can run. `None` for a request that only the sidecar can send.
    pub check: Option<Check>,
    /// Probe action that does the same as the check, if there is one.
    pub handler: Option<Handler>,
}

impl From<Check> for ReadyCheck {
    fn from(check: Check) -> ReadyCheck {
        ReadyCheck { text: check.to_string(), handler: Handler::from_check(check.clone()), check: Some(check) }
    }
}

impl ReadyCheck {
    /// Parses a request of the sidecar. Returns `None` for any other check.
    pub(super) fn parse_sidecar_request(text: &str) -> Option<Result<ReadyCheck, String>> {
        let (url, headers) = text.split_once(',').map_or((text, None), |(url, headers)| (url, Some(headers)));
        let (scheme, rest) = url.trim().split_once("://")?;
        let is_request = matches!(scheme, "https" | "grpc") || scheme == "http" && headers.is_some();
        let request = |handler| ReadyCheck { text: text.trim().to_owned(), check: None, handler: Some(handler) };
        is_request.then(|| parse_handler(scheme, rest, headers).map(request))
    }

    /// Returns true if the sidecar runs the check, and false if the agent in the container does.
    pub fn is_network(&self) -> bool {
        self.check.as_ref().is_none_or(Check::is_network)
    }

    /// Replaces the probes of a container by this check.
    pub(crate) fn replace_probes(&self, container: &mut Container) {
        let handler = self.handler.clone().filter(|_| self.is_network());
        container.startup_probe = None;
        container.ready_check = handler.is_none().then(|| self.text.clone());
        container.readiness_probe = handler.map(|handler| Probe {
            handler,
            initial_delay_seconds: 0,
            timeout_seconds: 1,
            period_seconds: 1,
            success_threshold: 1,
            failure_threshold: 3,
        });
    }
}

fn parse_handler(scheme: &str, rest: &str, headers: Option<&str>) -> Result<Handler, String> {
    let check: Check = format!("http://{rest}").parse().map_err(|error: ParseError| error.to_string())?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let Some(Handler::HttpGet(get @ HttpGet { port: PortRef::Number(port), .. })) = Handler::from_check(check) else {
        return Err("the URL is invalid".to_owned());
    };
    if scheme != "http" && !authority.ends_with(&format!(":{port}")) {
        return Err("the URL has no port".to_owned());
    }
    if let Some(host) = get.host.as_deref().filter(|host| !is_local(Some(host))) {
        return Err(format!("it does not check this container, because {host} is another host"));
    }
    let http_headers = headers.map(parse_headers).transpose()?.unwrap_or_default();
    Ok(match scheme {
        "grpc" if headers.is_some() => return Err("a grpc:// check has no headers".to_owned()),
        "grpc" => {
            Handler::Grpc(Grpc { port, service: get.path.map(|path| path[1..].to_owned()), host: get.host, mode: None })
        }
        _ => Handler::HttpGet(HttpGet { scheme: (scheme == "https").then(|| "HTTPS".to_owned()), http_headers, ..get }),
    })
}

fn parse_headers(text: &str) -> Result<Vec<Header>, String> {
    let header = |item: &str| {
        // A value that begins with `//` comes from the URL of a second check, as in `, tcp://db:5432`.
        let found = Header::parse(item).filter(|header| !header.value.starts_with("//"));
        found.ok_or_else(|| format!("{:?} is not a header", item.trim()))
    };
    text.split(',').map(header).collect()
}

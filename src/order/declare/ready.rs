//! Values of `ready.podgate.io/CONTAINER`: a check, or a request that only podgate's sidecar can send, such as
//! `https://localhost:8443/health, Host: shop.example`.

use crate::core::argv::{Check, ParseError};
use crate::core::container::{Grpc, Handler, Header, HttpGet, PortRef};
use std::fmt;

/// Check that replaces the probes of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// Check that the agent in the container can run.
    Check(Check),
    /// Request that only the sidecar can send, with its text.
    Request(String, Handler),
}

impl Ready {
    /// Parses a request of the sidecar. Returns `None` for any other check.
    pub(super) fn parse_request(text: &str) -> Option<Result<Ready, String>> {
        let (url, headers) = text.split_once(',').map_or((text, None), |(url, headers)| (url, Some(headers)));
        let (scheme, rest) = url.trim().split_once("://")?;
        let is_request = matches!(scheme, "https" | "grpc") || scheme == "http" && headers.is_some();
        is_request.then(|| Ok(Ready::Request(text.trim().to_owned(), parse_handler(scheme, rest, headers)?)))
    }

    /// Returns true if the sidecar runs the check, and false if the agent in the container does.
    pub fn is_network(&self) -> bool {
        matches!(self, Ready::Request(..)) || self.check().is_some_and(Check::is_network)
    }

    /// Returns the check that the agent can run.
    pub fn check(&self) -> Option<&Check> {
        if let Ready::Check(check) = self { Some(check) } else { None }
    }

    /// Returns the probe action that does the same, if there is one.
    pub fn handler(&self) -> Option<Handler> {
        match self {
            Ready::Check(check) => Handler::from_check(check.clone()),
            Ready::Request(_, handler) => Some(handler.clone()),
        }
    }
}

fn parse_handler(scheme: &str, rest: &str, headers: Option<&str>) -> Result<Handler, String> {
    let check: Check = format!("http://{rest}").parse().map_err(|error: ParseError| error.to_string())?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let Some(Handler::HttpGet(get @ HttpGet { port: PortRef::Number(port), .. })) = Handler::from_check(check) else {
        return Err("the URL is invalid".to_owned());
    };
    if !authority.ends_with(&format!(":{port}")) {
        return Err("the URL has no port".to_owned());
    }
    if let Some(host) = get.host.as_deref().filter(|host| !is_local(host)) {
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

/// Returns true if `host` means the Pod itself.
pub(super) fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1")
}

fn parse_headers(text: &str) -> Result<Vec<Header>, String> {
    let header = |item: &str| {
        let (name, value) = item.split_once(':').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_valid = !name.is_empty() && name.bytes().all(is_token) && value.chars().all(|c| !c.is_control());
        if !is_valid || !item.contains(':') {
            return Err(format!("{:?} is not a header", item.trim()));
        }
        Ok(Header { name: name.to_owned(), value: value.to_owned() })
    };
    text.split(',').map(header).collect()
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Check(check) => check.fmt(f),
            Ready::Request(text, _) => f.write_str(text),
        }
    }
}

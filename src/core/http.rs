//! An `httpGet` probe or hook: requests, redirects and result, as in the kubelet's `pkg/probe/http` (Go's `net/http`).

use crate::core::http_response::{Response, is_token};
use crate::core::url::Url;
use serde::{Deserialize, Serialize};

/// User agent of probes. Starts with the kubelet's, because some servers exclude that prefix from their access log.
pub const PROBE_USER_AGENT: &str = concat!("kube-probe/podgate-", env!("CARGO_PKG_VERSION"));
/// User agent of lifecycle hooks.
pub const HOOK_USER_AGENT: &str = concat!("kube-lifecycle/podgate-", env!("CARGO_PKG_VERSION"));

/// Limit on the requests of one attempt, including redirects.
const REQUESTS_MAX: u32 = 10;

/// A header of an `httpGet` request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name, in any case.
    pub name: String,
    /// Value.
    #[serde(default)]
    pub value: String,
}

impl Header {
    /// Parses `NAME: VALUE`. Returns `None` if the text is not a valid header.
    pub fn parse(text: &str) -> Option<Header> {
        let (name, value) = text.split_once(':')?;
        let header = Header { name: name.trim().to_owned(), value: value.trim().to_owned() };
        header.is_valid().then_some(header)
    }

    /// Returns true if a request can contain the header.
    pub fn is_valid(&self) -> bool {
        let is_value = !self.value.chars().any(|c| c.is_ascii_control() && c != '\t');
        !self.name.is_empty() && self.name.bytes().all(is_token) && is_value
    }

    /// Returns true if this is the header `name`, in any case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Result of an attempt of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// True if the kubelet would count the attempt as a success.
    pub success: bool,
    /// True if the kubelet would discard the attempt, which then is neither a success nor a failure.
    pub is_discarded: bool,
    /// Description, without any content of the response's body.
    pub detail: String,
    /// Warning about a success. The kubelet reports such a warning as an event of type `ProbeWarning`.
    pub warning: Option<String>,
}

impl Outcome {
    /// Creates a success.
    pub fn success(detail: String, warning: Option<String>) -> Outcome {
        Outcome { success: true, is_discarded: false, detail, warning }
    }

    /// Creates a failure.
    pub fn failure(detail: String) -> Outcome {
        Outcome { success: false, is_discarded: false, detail, warning: None }
    }

    /// Creates the result of an attempt that the kubelet would discard.
    pub fn discarded(detail: String) -> Outcome {
        Outcome { is_discarded: true, ..Outcome::failure(detail) }
    }
}

/// One attempt: the next request, and the rules for its response.
#[derive(Debug, Clone)]
pub struct HttpAttempt {
    first_host: String,
    /// URL of the next request.
    pub url: Url,
    /// The other headers of each request as lines, without `Host` and `Connection`.
    pub headers: String,
    /// The user's `Host` header.
    host: Option<String>,
    requests: u32,
}

impl HttpAttempt {
    /// Creates an attempt that begins with `url`, with the user's headers `own`. Fails if a header is invalid.
    pub fn new(agent: &str, url: Url, own: &[Header]) -> Result<HttpAttempt, String> {
        // Go's client omits the headers about a body, because the request has no body.
        const SPECIAL: [&str; 6] = ["User-Agent", "Accept", "Host", "Content-Length", "Transfer-Encoding", "Trailer"];
        if let Some(wrong) = own.iter().find(|header| !header.is_valid()) {
            return Err(format!("invalid header: {:?}", wrong.name));
        }
        let first = |name: &str| own.iter().find(|header| header.is(name)).map(|header| header.value.as_str());
        let mut headers = String::new();
        let mut add = |name: &str, value: &str| headers.extend([name, ": ", value, "\r\n"]);
        for (name, default) in [(SPECIAL[0], agent), (SPECIAL[1], "*/*")] {
            // An empty value removes the header.
            match first(name).unwrap_or(default) {
                "" => {}
                value => add(name, value),
            }
        }
        let others = own.iter().filter(|header| !SPECIAL.iter().any(|name| header.is(name)));
        others.for_each(|header| add(&header.name, &header.value));
        let host = first("Host").filter(|host| !host.is_empty()).map(str::to_owned);
        Ok(HttpAttempt { first_host: url.host.clone(), url, headers, host, requests: 0 })
    }

    /// Returns the value of the next request's `Host` header.
    pub fn host_header(&self) -> &str {
        self.host.as_deref().unwrap_or(&self.url.authority)
    }

    /// Returns the next request as HTTP/1.1.
    pub fn request(&self) -> Vec<u8> {
        let (target, host, headers) = (self.url.target(), self.host_header(), &self.headers);
        let parts = ["GET ", &target, " HTTP/1.1\r\nHost: ", host, "\r\n", headers, "Connection: close\r\n\r\n"];
        parts.concat().into_bytes()
    }

    /// Handles the response to the request. Returns the result, or `None` if the response redirects to another `url`.
    /// Fails if the redirect is invalid.
    pub fn on_response(&mut self, response: Response) -> Result<Option<Outcome>, String> {
        let detail = format!("HTTP status {}", response.status);
        if let Some(location) = response.location {
            let next = self.url.join(&location).ok_or("redirects to an invalid URL")?;
            if next.host != self.first_host {
                let warning = format!("redirects to another host, not followed: {:?}", next.host);
                return Ok(Some(Outcome::success(detail, Some(warning))));
            }
            self.requests += 1;
            if self.requests == REQUESTS_MAX {
                return Err(format!("stopped after {REQUESTS_MAX} redirects"));
            }
            // Like Go's client, keep the user's Host header only for relative redirects.
            self.host.take_if(|_| Url::is_absolute(&location));
            self.url = next;
            return Ok(None);
        }
        Ok(Some(match response.status {
            _ if let Some(why) = response.body_error => Outcome::discarded(format!("{detail}, but {why} in its body")),
            200..300 => Outcome::success(detail, None),
            300..400 => Outcome::success(detail, Some("redirect not followed".to_owned())),
            _ => Outcome::failure(detail),
        }))
    }
}

//! Sends the request that makes a container exit.

use super::run_exchange;
use crate::failure::Result;
use podgate::core::argv::Check;
use podgate::core::http::USER_AGENT;
use podgate::core::quit::parse;
use podgate::core::url::authority;
use std::time::Instant;

/// Sends the request, and returns the status of the response.
pub(crate) async fn send(text: &str, deadline: Instant) -> Result<u16> {
    let (method, Check::Http { host, port, path, .. }) = parse(text)? else { return Err("not an HTTP URL".into()) };
    let authority = authority(&host, port);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    Ok(run_exchange(&host, port, Some(request.into_bytes()), deadline).await?.status)
}

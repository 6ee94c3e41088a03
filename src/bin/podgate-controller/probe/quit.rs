//! Sends the request that makes a container exit.

use super::{USER_AGENT, authority, connect, exchange};
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, HOST, USER_AGENT as AGENT};
use hyper::{Request, Response, StatusCode};
use podgate::core::argv::Check;
use podgate::core::quit::parse;

/// Sends the request, and returns the status of the response.
pub(crate) async fn send(text: &str) -> Result<StatusCode, String> {
    let (method, Check::Http { host, port, path }) = parse(text)? else { return Err("not an HTTP URL".to_owned()) };
    let request = Request::builder().method(method).uri(path).header(HOST, authority(&host, port));
    let request = request.header(AGENT, USER_AGENT).header(CONTENT_LENGTH, 0).body(Full::default());
    let (request, stream) = (request.map_err(|error| error.to_string())?, connect(&host, port).await?);
    exchange::send_http1(stream, request, async |answer: Response<_>| Ok(answer.status())).await
}

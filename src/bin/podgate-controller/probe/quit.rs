//! Sends the request that makes a container exit.

use super::{USER_AGENT, connect, exchange};
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, HOST, USER_AGENT as AGENT};
use hyper::{Request, Response, StatusCode};
use podgate::core::quit::Quit;

/// Sends the request, and returns the status of the response.
pub(crate) async fn send(quit: &Quit) -> Result<StatusCode, String> {
    let host = if quit.host.contains(':') { format!("[{}]", quit.host) } else { quit.host.clone() };
    let request = Request::builder().method(&*quit.method).uri(&quit.path);
    let request = request.header(HOST, format!("{host}:{}", quit.port)).header(AGENT, USER_AGENT);
    let request = request.header(CONTENT_LENGTH, 0).body(Full::default()).map_err(|error| error.to_string())?;
    let stream = connect(&quit.host, quit.port).await?;
    exchange::send_http1(stream, request, async |answer: Response<_>| Ok(answer.status())).await
}

//! Implements `httpGet` probes, like the kubelet's `pkg/probe/http` with Go's `net/http`. Here are the requests that
//! need TLS or HTTP/2; [`podgate::core::http`] has the rules for all requests.

use super::{Outcome, connect, exchange, run_exchange, tls};
use crate::failure::Result;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderName, HeaderValue, LOCATION};
use hyper::{Request, Uri};
use podgate::core::container::HttpGet;
use podgate::core::http::{HttpAttempt, PROBE_USER_AGENT};
use podgate::core::http_response::{BODY_MAX, Response, is_redirect};
use podgate::core::text::error_chain;
use podgate::core::url::Url;
use std::time::Instant;

pub(super) async fn attempt(get: &HttpGet, host: &str, port: u16, deadline: Instant) -> Result<Outcome> {
    let scheme = get.scheme.as_deref().filter(|scheme| !scheme.is_empty()).unwrap_or("http");
    let url = Url::for_probe(scheme, host, port, get.path.as_deref().unwrap_or(""));
    let mut attempt = HttpAttempt::new(PROBE_USER_AGENT, url, &get.http_headers)?;
    loop {
        let response = send_request(&attempt, get.is_http2(), deadline).await?;
        if let Some(outcome) = attempt.on_response(response)? {
            return Ok(outcome);
        }
    }
}

async fn send_request(attempt: &HttpAttempt, is_http2: bool, deadline: Instant) -> Result<Response> {
    let (host, port) = (attempt.url.host.as_str(), attempt.url.port());
    match attempt.url.scheme.as_str() {
        "http" if is_http2 => {
            exchange::send_http2(connect(host, port).await?, http2_request(attempt)?, read_response).await
        }
        "http" => run_exchange(host, port, Some(attempt.request()), deadline).await,
        "https" => match tls::handshake(connect(host, port).await?, host).await? {
            (stream, true) => exchange::send_http2(stream, http2_request(attempt)?, read_response).await,
            (stream, false) => exchange::send_http1(stream, &attempt.request()).await,
        },
        other => Err(format!("{other:?} is neither http nor https").into()),
    }
}

/// Builds an HTTP/2 request, with `:authority` instead of `Host`, and without `Connection`.
fn http2_request(attempt: &HttpAttempt) -> Result<Request<Full<Bytes>>> {
    let uri = format!("{}://{}{}", attempt.url.scheme, attempt.host_header(), attempt.url.target());
    let mut request = Request::new(Full::default());
    *request.uri_mut() = Uri::try_from(uri).map_err(|error| format!("invalid URL: {error}"))?;
    for (name, value) in attempt.headers.lines().filter_map(|line| line.split_once(": ")) {
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        let (name, value) = parsed.ok_or_else(|| format!("invalid header: {name:?}"))?;
        request.headers_mut().append(name, value);
    }
    request.headers_mut().remove(CONNECTION);
    Ok(request)
}

async fn read_response(answer: hyper::Response<Incoming>) -> Result<Response> {
    let status = answer.status().as_u16();
    let location = answer.headers().get(LOCATION).filter(|location| is_redirect(status) && !location.is_empty());
    let location = location.map(|location| String::from_utf8_lossy(location.as_bytes()).into_owned());
    let mut response = Response { status, location, body_error: None };
    let (mut body, mut seen) = (answer.into_body(), 0);
    while response.location.is_none()
        && seen < BODY_MAX
        && let Some(frame) = body.frame().await
    {
        match frame {
            Ok(frame) => seen += frame.data_ref().map_or(0, |data| data.len() as u64),
            Err(error) => {
                response.body_error = Some(error_chain(&error));
                break;
            }
        }
    }
    Ok(response)
}

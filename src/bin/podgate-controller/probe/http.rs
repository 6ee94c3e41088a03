//! Implements `httpGet` probes, like the kubelet's `pkg/probe/http` with Go's `net/http`.

use super::url::Url;
use super::{AttemptResult, Outcome, USER_AGENT, connect, exchange, tls};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, REFERER, TRAILER,
    TRANSFER_ENCODING, USER_AGENT as AGENT,
};
use hyper::{Request, Response, StatusCode, Uri};
use podgate::core::container::{Header, HttpGet};
use podgate::core::text::error_chain;

/// Maximum number of bytes to read from a body. Short bodies are read completely, because an early close can cause an
/// error on the server.
const MAX_BODY_BYTES: usize = 10 * 1024;

/// Limit on the requests of one attempt, including redirects.
const MAX_REQUESTS: usize = 10;

pub(super) async fn attempt(get: &HttpGet, host: &str, port: u16) -> AttemptResult {
    let scheme = get.scheme.as_deref().filter(|scheme| !scheme.is_empty()).unwrap_or("http");
    let first = Url::for_probe(scheme, host, port, get.path.as_deref().unwrap_or(""));
    let (mut headers, mut host_header) = request_headers(&get.http_headers)?;
    let has_own_referer = headers.contains_key(REFERER);
    let mut url = first.clone();
    for _ in 0..MAX_REQUESTS {
        let (status, location) = send_request(&url, get.is_http2(), host_header.as_ref(), &headers).await?;
        let Some(location) = location else { return status_result(status) };
        let (next, is_absolute) = url.join(&location).ok_or("redirects to an invalid URL")?;
        if next.host != first.host {
            let warning = format!("redirects to another host, not followed: {:?}", next.host);
            return Ok(Outcome::success(status_text(status), Some(warning)));
        }
        // Like Go's client, keep the user's Host header only for relative redirects.
        host_header = host_header.filter(|_| !is_absolute);
        if !has_own_referer {
            headers.remove(REFERER);
            let is_downgrade = url.scheme == "https" && next.scheme == "http";
            let referer = format!("{}://{}{}", url.scheme, url.authority, url.target());
            if let (false, Ok(referer)) = (is_downgrade, HeaderValue::try_from(referer)) {
                headers.insert(REFERER, referer);
            }
        }
        url = next;
    }
    Err(format!("stopped after {MAX_REQUESTS} redirects"))
}

/// Status of a response, and its redirect target; `None` unless the response is a redirect that can be followed.
type Answer = (StatusCode, Option<String>);

fn status_result(status: StatusCode) -> AttemptResult {
    let detail = status_text(status);
    match status.as_u16() {
        200..300 => Ok(Outcome::success(detail, None)),
        300..400 => {
            let warning = format!("{detail}, redirect not followed");
            Ok(Outcome::success(detail, Some(warning)))
        }
        _ => Err(detail),
    }
}

fn status_text(status: StatusCode) -> String {
    format!("HTTP status {}", status.as_u16())
}

/// Returns the headers for all requests of an attempt, and the user's `Host` header.
fn request_headers(own: &[Header]) -> Result<(HeaderMap, Option<HeaderValue>), String> {
    let mut headers = HeaderMap::new();
    for Header { name, value } in own {
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        let (name, value) = parsed.ok_or_else(|| format!("invalid header: {name:?}"))?;
        headers.append(name, value);
    }
    // The first value of a header counts. An empty value removes the header.
    let is_empty = |value: &HeaderValue| value.is_empty();
    for (name, default) in [(AGENT, USER_AGENT), (ACCEPT, "*/*")] {
        match headers.get(&name).map(is_empty) {
            None => drop(headers.insert(name, HeaderValue::from_static(default))),
            Some(true) => drop(headers.remove(name)),
            Some(false) => {}
        }
    }
    let host = headers.remove(HOST).filter(|host| !host.is_empty());
    // Remove these headers, as Go's client does, because the request has no body.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
        headers.remove(name);
    }
    Ok((headers, host))
}

async fn send_request(
    url: &Url,
    is_http2: bool,
    host: Option<&HeaderValue>,
    headers: &HeaderMap,
) -> Result<Answer, String> {
    match url.scheme.as_str() {
        "http" if is_http2 => {
            let stream = connect(&url.host, url.port()).await?;
            exchange::send_http2(stream, http2_request(url, host, headers)?, read_answer).await
        }
        "http" => {
            let stream = connect(&url.host, url.port()).await?;
            exchange::send_http1(stream, http1_request(url, host, headers)?, read_answer).await
        }
        "https" => {
            let stream = connect(&url.host, url.port()).await?;
            match tls::handshake(stream, &url.host).await? {
                (stream, true) => exchange::send_http2(stream, http2_request(url, host, headers)?, read_answer).await,
                (stream, false) => exchange::send_http1(stream, http1_request(url, host, headers)?, read_answer).await,
            }
        }
        other => Err(format!("{other:?} is neither http nor https")),
    }
}

fn http1_request(url: &Url, host: Option<&HeaderValue>, headers: &HeaderMap) -> Result<Request<Full<Bytes>>, String> {
    let host = match host {
        Some(host) => host.clone(),
        None => HeaderValue::try_from(&url.authority).map_err(|_| format!("invalid host: {:?}", url.authority))?,
    };
    let mut request = Request::new(Full::default());
    *request.uri_mut() = parse_uri(&url.target())?;
    // hyper sends the headers in this order. Host comes first, as servers expect.
    request.headers_mut().insert(HOST, host);
    request.headers_mut().extend(headers.clone());
    request.headers_mut().append(CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// Builds an HTTP/2 request, with `:authority` instead of `Host`, and without `Connection`.
fn http2_request(url: &Url, host: Option<&HeaderValue>, headers: &HeaderMap) -> Result<Request<Full<Bytes>>, String> {
    let authority = host.and_then(|host| host.to_str().ok()).unwrap_or(&url.authority);
    let mut request = Request::new(Full::default());
    *request.uri_mut() = parse_uri(&format!("{}://{authority}{}", url.scheme, url.target()))?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(CONNECTION);
    Ok(request)
}

fn parse_uri(text: &str) -> Result<Uri, String> {
    Uri::try_from(text).map_err(|error| format!("invalid URL: {error}"))
}

async fn read_answer(answer: Response<Incoming>) -> Result<Answer, String> {
    let status = answer.status();
    if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
        && let Some(location) = answer.headers().get(LOCATION).filter(|location| !location.is_empty())
    {
        let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
        return Ok((status, Some(location)));
    }
    let mut body = answer.into_body();
    let mut seen = 0;
    while seen < MAX_BODY_BYTES
        && let Some(frame) = body.frame().await
    {
        let frame = frame
            .map_err(|error| format!("{}, but its body is incomplete: {}", status_text(status), error_chain(&error)))?;
        seen += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok((status, None))
}

//! Implements `grpc` probes, like the kubelet, without verification of TLS certificates. Uses the
//! [gRPC health service](https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
//!
//! The two messages, with one field each, are encoded and decoded by hand. A gRPC library would be larger than the rest
//! of the prober.

use super::{Outcome, connect, exchange, tls};
use crate::failure::Result;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT as AGENT};
use hyper::{Request, Response, StatusCode};
use podgate::core::container::Grpc;
use podgate::core::http::PROBE_USER_AGENT;
use podgate::core::text::error_chain;
use podgate::core::url::authority;

/// Size limit for the response, in bytes. A normal response has a frame header of 5 bytes and a message of 2 bytes.
const MAX_ANSWER_BYTES: usize = 4096;

/// Key of the field `status` in a `HealthCheckResponse`: field number 1, type varint.
const STATUS_FIELD: u8 = 1 << 3;

pub(super) async fn attempt(ask: &Grpc, host: &str, port: u16) -> Result<Outcome> {
    let service = ask.service.as_deref().unwrap_or_default();
    let uri = format!("http://{}/grpc.health.v1.Health/Check", authority(host, port));
    let request = Request::post(uri).header(CONTENT_TYPE, "application/grpc").header(TE, "trailers");
    let request = request.header(AGENT, PROBE_USER_AGENT).body(Full::from(encode_request(service)));
    let request = request.map_err(|error| error.to_string())?;
    let stream = connect(host, port).await?;
    let status = if ask.is_tls() {
        let (stream, is_h2) = tls::handshake(stream, host).await?;
        if !is_h2 {
            return Err("the server supports TLS but not HTTP/2".into());
        }
        exchange::send_http2(stream, request, read_answer).await?
    } else {
        exchange::send_http2(stream, request, read_answer).await?
    };
    Ok(match status {
        0 => Outcome::failure("UNKNOWN".to_owned()),
        1 => Outcome::success("SERVING".to_owned(), None),
        2 => Outcome::failure("NOT_SERVING".to_owned()),
        3 => Outcome::failure("SERVICE_UNKNOWN".to_owned()),
        other => Outcome::failure(format!("unknown serving status {other}")),
    })
}

/// Encodes `HealthCheckRequest { service = 1 }` with its frame: compression flag (0), length, message.
fn encode_request(service: &str) -> Bytes {
    let mut message = Vec::new();
    // Protobuf omits a field with its default value.
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.append(&mut message);
    framed.into()
}

async fn read_answer(answer: Response<Incoming>) -> Result<u8> {
    if answer.status() != StatusCode::OK {
        return Err(format!("HTTP status {} instead of a gRPC response", answer.status().as_u16()).into());
    }
    let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !kind.starts_with(b"application/grpc") {
        return Err("the server supports HTTP/2 but not gRPC".into());
    }
    // A response without a message has its gRPC status in the headers.
    let status = grpc_status(answer.headers())?;
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return "gRPC response is too long".to_owned();
        }
        format!("gRPC response is incomplete: {}", error_chain(&*error))
    })?;
    let status = body.trailers().map_or(Ok(None), grpc_status)?.or(status);
    match status {
        Some(0) => {}
        Some(5) => return Err("the probe's service is unknown (gRPC status 5); correct grpc.service".into()),
        Some(12) => return Err("the server does not implement grpc.health.v1.Health (gRPC status 12)".into()),
        Some(other) => return Err(format!("gRPC status {other}").into()),
        None => return Err("gRPC response without a status".into()),
    }
    serving_status(&body.to_bytes()).ok_or_else(|| "gRPC response is invalid".into())
}

fn grpc_status(headers: &HeaderMap) -> Result<Option<u32>> {
    let Some(value) = headers.get("grpc-status") else { return Ok(None) };
    let code = value.to_str().ok().and_then(|text| text.parse().ok());
    code.map(Some).ok_or_else(|| "gRPC status is not a number".into())
}

/// Returns the serving status in the body of a response: a frame (compression flag 0, length), then a
/// `HealthCheckResponse`, whose first field is the status. Protobuf omits the value 0. The flag must be 0, because the
/// request allows no compression.
fn serving_status(body: &[u8]) -> Option<u8> {
    let (frame, message) = body.split_first_chunk::<5>()?;
    if *frame != [0, 0, 0, 0, u8::try_from(message.len()).ok()?] {
        return None;
    }
    match message {
        [] => Some(0),
        [STATUS_FIELD, status @ ..0x80, ..] => Some(*status),
        _ => None,
    }
}

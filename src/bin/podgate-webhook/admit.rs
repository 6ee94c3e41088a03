//! One request on the TLS port.

use crate::clock::now;
use crate::state::State;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use podgate::order::admission::{self, Answer, Outcome};
use podgate::order::inject;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tracing::{info, warn};

/// Largest body, in bytes: the API server itself takes objects of 3 MiB.
const BODY_MAX: usize = 8 << 20;
/// For a body to arrive whole.
const BODY_LIMIT: Duration = Duration::from_secs(5);

/// What is answered, and what for.
struct Reply {
    outcome: &'static str,
    status: StatusCode,
    header: Option<(HeaderName, &'static str)>,
    body: String,
}

impl Reply {
    fn error(outcome: &'static str, status: StatusCode, what: impl Into<String>) -> Reply {
        Reply { outcome, status, header: None, body: format!("{}\n", what.into()) }
    }
}

pub(crate) async fn answer(state: &State, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let since = now();
    state.metrics.in_flight.inc();
    let Reply { outcome, status, header, body } = reply(state, request).await;
    state.metrics.in_flight.dec();
    state.metrics.answered(outcome, since.elapsed());
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = if status == StatusCode::OK { "application/json" } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if state.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn reply(state: &State, request: Request<Incoming>) -> Reply {
    if request.uri().path() != "/inject" {
        return Reply::error("bad-request", StatusCode::NOT_FOUND, "reviews go to /inject");
    }
    if request.method() != Method::POST {
        let refused = Reply::error("bad-request", StatusCode::METHOD_NOT_ALLOWED, "POST only");
        return Reply { header: Some((ALLOW, "POST")), ..refused };
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let what = "Content-Type must be application/json";
        return Reply::error("bad-request", StatusCode::UNSUPPORTED_MEDIA_TYPE, what);
    }
    let too_large = || {
        let what = format!("a body may have {BODY_MAX} bytes");
        Reply::error("too-large", StatusCode::PAYLOAD_TOO_LARGE, what)
    };
    let size = request.body().size_hint();
    // One that does not say how long it is may be as long as any.
    let size = size.exact().or(size.upper()).unwrap_or(BODY_MAX as u64);
    let Some(size) = usize::try_from(size).ok().filter(|size| *size <= BODY_MAX) else { return too_large() };
    let whole = async {
        let room = state.lanes.room(size).await;
        (Limited::new(request.into_body(), BODY_MAX).collect().await, room)
    };
    match tokio::time::timeout(BODY_LIMIT, whole).await {
        Ok((Ok(body), _room)) => review(state, &body.to_bytes()),
        Ok((Err(error), _)) if error.is::<LengthLimitError>() => too_large(),
        Ok((Err(error), _)) => {
            let what = format!("the body can't be read: {error}");
            Reply::error("bad-request", StatusCode::BAD_REQUEST, what)
        }
        Err(_) => {
            let what = "no room, or no whole body, in time";
            let busy = Reply::error("timeout", StatusCode::SERVICE_UNAVAILABLE, what);
            Reply { header: Some((RETRY_AFTER, "1")), ..busy }
        }
    }
}

fn review(state: &State, body: &[u8]) -> Reply {
    let options = &state.options;
    let inject = |pod: &_, known: &_| inject::inject(pod, options, known);
    match catch_unwind(AssertUnwindSafe(|| admission::answer(body, &inject::is_declared, &inject))) {
        Ok(Ok(answer)) => {
            tell(&answer);
            Reply {
                outcome: answer.outcome.as_str(),
                status: StatusCode::OK,
                header: None,
                body: answer.body.to_string(),
            }
        }
        Ok(Err(bad)) => {
            warn!(error = %bad, "bad request");
            Reply::error("bad-request", StatusCode::BAD_REQUEST, bad.to_string())
        }
        Err(_) => {
            let what = "a fault of podgate; its log has more";
            Reply::error("failed", StatusCode::INTERNAL_SERVER_ERROR, what)
        }
    }
}

fn tell(answer: &Answer) {
    let Answer { namespace, name, .. } = answer;
    match answer.outcome {
        Outcome::Injected => info!(namespace, name, "injected"),
        Outcome::Refused => info!(namespace, name, why = answer.message, "refused"),
        Outcome::Unchanged | Outcome::Passed => {
            tracing::debug!(namespace, name, outcome = answer.outcome.as_str(), "nothing to do");
        }
    }
}

//! Handles a request on the TLS port.

use crate::clock::now;
use crate::http::{Reply, TEXT, reply};
use crate::state::State;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use podgate::order::admission::{self, Answer, Outcome};
use podgate::order::inject;
use podgate::order::plan::KnownImages;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tracing::{info, warn};

/// Size limit for a request's body, in bytes. The API server itself accepts objects of up to 3 MiB.
const BODY_MAX: usize = 8 << 20;
/// Time limit for receiving the whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Outcome label for the metrics, and the response.
type OutcomeReply = (&'static str, Reply);

fn error_reply(outcome: &'static str, status: StatusCode, what: impl Display) -> OutcomeReply {
    (outcome, reply(status, TEXT, format!("{what}\n")))
}

pub(crate) async fn answer(state: &State, request: Request<Incoming>) -> Reply {
    let since = now();
    state.metrics.in_flight.inc();
    let (outcome, mut reply) = handle(state, request).await;
    state.metrics.in_flight.dec();
    state.metrics.record_request(outcome, since.elapsed());
    if state.is_draining() {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

async fn handle(state: &State, request: Request<Incoming>) -> OutcomeReply {
    if request.uri().path() != "/inject" {
        return error_reply("bad-request", StatusCode::NOT_FOUND, "not found; send reviews to /inject");
    }
    if request.method() != Method::POST {
        let mut refused = error_reply("bad-request", StatusCode::METHOD_NOT_ALLOWED, "use POST");
        refused.1.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return error_reply("bad-request", StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    let too_large =
        || error_reply("too-large", StatusCode::PAYLOAD_TOO_LARGE, format_args!("the limit is {BODY_MAX} bytes"));
    let size = request.body().size_hint();
    // A body of unknown size can reach the size limit.
    let size = size.exact().or(size.upper()).unwrap_or(BODY_MAX as u64);
    let Some(size) = usize::try_from(size).ok().filter(|size| *size <= BODY_MAX) else { return too_large() };
    let whole = async {
        let room = state.body_budget.reserve(size).await;
        (Limited::new(request.into_body(), BODY_MAX).collect().await, room)
    };
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok((Ok(body), _room)) => review(state, &body.to_bytes()),
        Ok((Err(error), _)) if error.is::<LengthLimitError>() => too_large(),
        Ok((Err(why), _)) => {
            error_reply("bad-request", StatusCode::BAD_REQUEST, format_args!("the body can't be read: {why}"))
        }
        Err(_) => {
            let why = "the body did not arrive in time, or too many requests are in progress";
            let mut busy = error_reply("timeout", StatusCode::SERVICE_UNAVAILABLE, why);
            busy.1.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            busy
        }
    }
}

fn review(state: &State, body: &[u8]) -> OutcomeReply {
    let inject = |pod: &_| inject::inject(pod, &state.options, &KnownImages::default());
    match catch_unwind(AssertUnwindSafe(|| admission::answer(body, &inject))) {
        Ok(Ok(answer)) => {
            log_outcome(&answer);
            (answer.outcome.as_str(), reply(StatusCode::OK, "application/json", answer.body.to_string()))
        }
        Ok(Err(bad)) => {
            warn!(error = %bad, "bad request");
            error_reply("bad-request", StatusCode::BAD_REQUEST, bad)
        }
        Err(_) => error_reply("failed", StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the webhook's log"),
    }
}

fn log_outcome(answer: &Answer) {
    let Answer { namespace, name, .. } = answer;
    match answer.outcome {
        Outcome::Injected => info!(namespace, name, "injected"),
        Outcome::Refused => info!(namespace, name, why = answer.message, "refused"),
        Outcome::Unchanged | Outcome::Passed => {
            tracing::debug!(namespace, name, outcome = answer.outcome.as_str(), "nothing to do");
        }
    }
}

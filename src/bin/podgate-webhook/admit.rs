//! Handles a request on the TLS port.

use crate::activity::{ConnectionActivity, Phase};
use crate::body_budget::{Reservation, SMALL_BODY_MAX};
use crate::clock::now;
use crate::state::State;
use crate::status_server::{Reply, TEXT_CONTENT_TYPE, reply};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use podgate::order::admission::{self, Answer, Outcome};
use podgate::order::declare::Publish;
use podgate::order::{image_map, inject};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

/// Size limit for a request's body, in bytes. The API server itself accepts objects of up to 3 MiB.
const BODY_MAX: usize = 4 << 20;
/// Time limit for a request, from its head to the response. The API server gives up after 5 s (`timeoutSeconds`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit for the first part of a body, and for each pause between two parts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Outcome label for the metrics, and the response.
type OutcomeReply = (&'static str, Reply);

fn error_reply(outcome: &'static str, status: StatusCode, what: impl Display) -> OutcomeReply {
    (outcome, reply(status, TEXT_CONTENT_TYPE, format!("{what}\n")))
}

/// Answers one request. Sets the connection's phase to `Busy` when the body has arrived.
pub(crate) async fn answer(state: &Arc<State>, request: Request<Incoming>, activity: &ConnectionActivity) -> Reply {
    let since = now();
    let _in_flight = state.metrics.start_request();
    let answered = timeout(REQUEST_TIMEOUT, handle(state, request, activity)).await;
    let (outcome, mut reply) = answered.unwrap_or_else(|_| busy("the request took too long"));
    state.metrics.record_request(outcome, since.elapsed());
    if state.is_draining() {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn busy(why: &str) -> OutcomeReply {
    let mut busy = error_reply("timeout", StatusCode::SERVICE_UNAVAILABLE, why);
    busy.1.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    busy
}

async fn handle(state: &Arc<State>, request: Request<Incoming>, activity: &ConnectionActivity) -> OutcomeReply {
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
    let reservation = state.body_budget.reserve();
    let body = match read_body(request.into_body(), &reservation).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    activity.set(Phase::Busy);
    // Only one large body at a time joins the queue for a review. A small body thus waits for at most two large ones.
    let _turn = if body.len() > SMALL_BODY_MAX { Some(state.large_body_turn.lock().await) } else { None };
    let seat = Arc::clone(&state.review_seat).lock_owned().await;
    // A worker thread reviews the body, so that a slow review does not delay connections or the status port.
    let reviewing = Arc::clone(state);
    let reviewed = spawn_blocking(move || {
        let _seat = seat;
        review(&reviewing, &body, reservation)
    });
    let failed = |_| error_reply("failed", StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the webhook's log");
    reviewed.await.unwrap_or_else(failed)
}

/// Reads the whole body, and reserves memory as bytes arrive. Fails with the reply to send if the body is too large,
/// too slow or invalid, or if the body lost its reservation.
async fn read_body(mut body: Incoming, reservation: &Reservation) -> Result<Vec<u8>, OutcomeReply> {
    let too_large = || {
        let what = format!("the request body is larger than {BODY_MAX} bytes");
        error_reply("too-large", StatusCode::PAYLOAD_TOO_LARGE, what)
    };
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::select! {
            () = reservation.evicted() => return Err(busy("too many requests are in progress; add replicas of the webhook if this persists")),
            frame = timeout(PAUSE_MAX, body.frame()) => frame,
        };
        match frame {
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > BODY_MAX {
                    return Err(too_large());
                }
                reservation.resize(bytes.len() + data.len());
                bytes.extend_from_slice(&data);
            }
            Ok(None) => break,
            Ok(Some(Err(why))) => {
                let what = format_args!("the body cannot be read: {why}");
                return Err(error_reply("bad-request", StatusCode::BAD_REQUEST, what));
            }
            Err(_) => return Err(busy("the body did not arrive in time")),
        }
    }
    reservation.mark_body_complete();
    Ok(bytes)
}

fn review(state: &State, body: &[u8], reservation: Reservation) -> OutcomeReply {
    let inject = |namespace: &str, pod: &_| {
        let mut known = state.cluster_facts.get().cloned().unwrap_or_default();
        // An injected Pod keeps the modes, commands and token of its injection, whatever the flags say now.
        if !inject::is_injected(pod) {
            let is_listed = state.namespaces.iter().any(|listed| listed == "*" || listed == namespace);
            known.sidecar = Some(state.sidecar);
            known.publish = Some(if is_listed { Publish::Api } else { Publish::None });
            known.images = image_map::commands(&state.images.get(), pod);
        }
        let mut injected = inject::inject(pod, &state.options, &known)?;
        let plan = injected.plan.as_ref();
        injected.findings.extend(plan.and_then(|plan| image_map::check_tags(pod, &known.images, plan)));
        Ok(injected)
    };
    match admission::answer(body, &inject, &state.orders.get()) {
        Ok(answer) => {
            log_outcome(&answer);
            let text = reservation.hold(answer.body.to_string());
            let reply = text.map(|text| (answer.outcome.as_str(), reply(StatusCode::OK, "application/json", text)));
            reply.unwrap_or_else(|| busy("too many large answers have not been read yet"))
        }
        Err(bad) => {
            warn!(error = %bad, "bad request");
            error_reply("bad-request", StatusCode::BAD_REQUEST, bad)
        }
    }
}

fn log_outcome(answer: &Answer) {
    let Answer { namespace, name, .. } = answer;
    match answer.outcome {
        Outcome::Injected => info!(namespace, name, "injected"),
        Outcome::Refused => info!(namespace, name, why = answer.message, "refused"),
        Outcome::Deferred => {
            info!(namespace, name, why = answer.message, "deferred: a later webhook may add the containers")
        }
        Outcome::Misfit => warn!(namespace, name, why = answer.message, "allowed without an order"),
        Outcome::Unchanged | Outcome::Checked | Outcome::Passed => {
            tracing::debug!(namespace, name, outcome = answer.outcome.as_str(), "nothing to do");
        }
    }
}

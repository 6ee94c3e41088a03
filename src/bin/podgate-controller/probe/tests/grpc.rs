//! Tests of `grpc` probes against hyper's HTTP/2 server.

use super::*;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsAcceptor;

fn grpc(port: u16, service: Option<&str>) -> Handler {
    Handler::Grpc(Grpc { port, service: service.map(str::to_owned), mode: None, host: None })
}

/// Function that returns a server's response to a request body.
type Answers = fn(&[u8]) -> Response<Body>;

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

/// Returns a response with its status in the trailers.
fn answer(message: &[u8], status: &str) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_str(status).unwrap());
    let frames = [Ok(Frame::data(Bytes::copy_from_slice(message))), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures::stream::iter(frames));
    Response::builder().header("content-type", "application/grpc+proto").body(BodyExt::boxed(body)).unwrap()
}

/// Returns a response without a message, with its status in the headers.
fn status_alone(status: &str) -> Response<Body> {
    let response = Response::builder().header("content-type", "application/grpc").header("grpc-status", status);
    response.body(Full::default().boxed()).unwrap()
}

/// Returns a response with a message and without a status.
fn message_alone(message: &'static [u8]) -> Response<Body> {
    Response::builder().header("content-type", "application/grpc").body(Full::from(message).boxed()).unwrap()
}

async fn serve_h2(answers: Answers) -> (u16, tokio::sync::mpsc::UnboundedReceiver<bool>) {
    serve_with(answers, None).await
}

/// Starts a server. The receiver gets true for each connection that was closed cleanly.
async fn serve_with(answers: Answers, tls: Option<TlsAcceptor>) -> (u16, tokio::sync::mpsc::UnboundedReceiver<bool>) {
    let (report, ends) = tokio::sync::mpsc::unbounded_channel();
    let port = accept(move |stream| {
        let (report, tls) = (report.clone(), tls.clone());
        async move {
            let service = service_fn(move |request: Request<Incoming>| async move {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                assert_eq!(
                    (request.method().as_str(), &request.headers()["te"]),
                    ("POST", &HeaderValue::from_static("trailers"))
                );
                assert!(request.headers()["user-agent"].to_str().unwrap().starts_with("kube-probe/"));
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(answers(&body))
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let end = match tls {
                None => server.serve_connection(TokioIo::new(stream), service).await,
                Some(acceptor) => {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    server.serve_connection(TokioIo::new(stream), service).await
                }
            };
            let _ = report.send(end.is_ok());
        }
    })
    .await;
    (port, ends)
}

/// Responds like a real health server: the whole server and `db` are serving, `mq` is not.
fn health(body: &[u8]) -> Response<Body> {
    match body {
        [0, 0, 0, 0, 0] | [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b'] => answer(&[0, 0, 0, 0, 2, 8, 1], "0"),
        [0, 0, 0, 0, 4, 0x0a, 2, b'm', b'q'] => answer(&[0, 0, 0, 0, 2, 8, 2], "0"),
        _ => status_alone("5"),
    }
}

#[tokio::test(flavor = "local")]
async fn health_service_determines_the_result() {
    let (port, mut ends) = serve_h2(health).await;
    for (service, success, text) in [
        (None, true, "SERVING"),
        (Some(""), true, "SERVING"),
        (Some("db"), true, "SERVING"),
        (Some("mq"), false, "NOT_SERVING"),
        (Some("no"), false, "gRPC status 5"),
    ] {
        let outcome = ask(grpc(port, service)).await;
        assert_eq!(outcome.success, success, "{service:?}: {outcome:?}");
        assert!(outcome.detail.contains(text), "{service:?}: {outcome:?}");
        assert!(ends.recv().await.unwrap(), "the connection was closed cleanly");
    }
}

#[tokio::test(flavor = "local")]
async fn tls_is_spoken_on_demand() {
    let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
    let (port, mut ends) = serve_with(health, Some(super::https::acceptor(&versions, &["h2"]))).await;
    let with = |port, mode: &str| Handler::Grpc(Grpc { port, service: None, mode: Some(mode.to_owned()), host: None });
    let outcome = ask(with(port, "TLS")).await;
    assert!(outcome.success && ends.recv().await.unwrap(), "{outcome:?}");
    assert!(!ask(with(port, "Plaintext")).await.success);
    let (http1, _) = serve_with(health, Some(super::https::acceptor(&versions, &["http/1.1"]))).await;
    let outcome = ask(with(http1, "TLS")).await;
    assert!(!outcome.success && outcome.detail.contains("TLS but not HTTP/2"), "{outcome:?}");
}

#[tokio::test(flavor = "local")]
async fn invalid_responses_are_failures() {
    let answers: [(Answers, &str); 14] = [
        (|_| answer(&[], "0"), "is invalid"),
        (|_| answer(&[1, 0, 0, 0, 2, 8, 1], "0"), "is invalid"),
        (|_| answer(&[0, 0, 0, 0, 3, 8, 1], "0"), "is invalid"),
        (|_| answer(&[0, 0, 0, 0, 1, 8], "0"), "is invalid"),
        (|_| answer(&[0, 0, 0, 0, 3, 8, 0x81, 0], "0"), "is invalid"),
        (|_| answer(&[0, 0, 0, 0, 0], "0"), "UNKNOWN"),
        (|_| answer(&[0, 0, 0, 0, 2, 8, 3], "0"), "SERVICE_UNKNOWN"),
        (|_| answer(&[0, 0, 0, 0, 2, 8, 1], "14"), "gRPC status 14"),
        (|_| answer(&[0, 0, 0, 0, 2, 8, 1], "x"), "not a number"),
        (|_| message_alone(&[0, 0, 0, 0, 2, 8, 1]), "without a status"),
        (|_| status_alone("12"), "does not implement grpc.health.v1.Health"),
        (|_| answer(&[0; 5000], "0"), "too long"),
        (|_| Response::new(Full::from("hello").boxed()), "not gRPC"),
        (|_| Response::builder().status(404).body(Full::default().boxed()).unwrap(), "HTTP status 404"),
    ];
    for (reply, text) in answers {
        let (port, _) = serve_h2(reply).await;
        let outcome = ask(grpc(port, None)).await;
        assert!(!outcome.success && outcome.detail.contains(text), "{text}: {outcome:?}");
    }
}

#[tokio::test(flavor = "local")]
async fn flood_of_pings_fails_early() {
    let settings = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let pings = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(100);
    let port = serve_endlessly(settings, pings, None).await;
    let outcome = ask_patiently(grpc(port, None)).await;
    assert!(!outcome.success, "{outcome:?}");
}

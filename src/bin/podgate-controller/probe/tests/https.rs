//! Tests of `httpGet` probes with `scheme: HTTPS`.

use super::super::exchange::LocalExecutor;
use super::*;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Observations of a TLS server: SNI, HTTP version, the request's authority, and true after a clean close of the
/// connection.
type Seen = (Option<String>, Version, String, bool);

/// Returns an acceptor whose certificate is self-signed, expired, and for another name.
pub(super) fn acceptor(versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> TlsAcceptor {
    let mut parameters = rcgen::CertificateParams::new(vec!["elsewhere.example".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let cert = parameters.self_signed(&signing_key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap())
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve_tls(
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&str],
) -> (u16, tokio::sync::mpsc::UnboundedReceiver<Seen>) {
    let acceptor = acceptor(versions, alpn);
    let (report, seen) = tokio::sync::mpsc::unbounded_channel();
    let port = accept(move |stream| {
        let (acceptor, report) = (acceptor.clone(), report.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let request = Rc::new(RefCell::new(None));
            let noted = request.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
                let authority = request.uri().authority().map(|authority| authority.to_string());
                assert!(host.is_none() || authority.is_none());
                *noted.borrow_mut() = Some((request.version(), host.or(authority).unwrap()));
                async { Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("fine"))) }
            });
            let io = TokioIo::new(stream);
            let end = if is_h2 {
                hyper::server::conn::http2::Builder::new(LocalExecutor).serve_connection(io, service).await
            } else {
                hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
            };
            let (version, authority) = request.borrow_mut().take().unwrap();
            let _ = report.send((name, version, authority, end.is_ok()));
        }
    })
    .await;
    (port, seen)
}

fn https(port: u16) -> HttpGet {
    HttpGet { scheme: Some("HTTPS".to_owned()), ..http_get(port, "/") }
}

#[tokio::test(flavor = "local")]
async fn any_certificate_is_accepted_by_tls_1_2_and_1_3() {
    for version in [&version::TLS12, &version::TLS13] {
        for (alpn, expected) in [
            (&[][..], Version::HTTP_11),
            (&["http/1.1"], Version::HTTP_11),
            (&["h2", "http/1.1"], Version::HTTP_2),
            (&["h2"], Version::HTTP_2),
        ] {
            let (port, mut seen) = serve_tls(&[version], alpn).await;
            let outcome = ask_get(https(port)).await;
            assert!(outcome.success, "{alpn:?}: {outcome:?}");
            let expected = (None, expected, format!("127.0.0.1:{port}"), true);
            assert_eq!(seen.recv().await.unwrap(), expected, "{alpn:?}");
        }
    }
}

#[tokio::test(flavor = "local")]
async fn http2_without_tls_is_spoken_on_demand() {
    let port = accept(|stream| async {
        let service = service_fn(|request: Request<Incoming>| async move {
            assert_eq!((request.version(), request.uri().path()), (Version::HTTP_2, "/ready"));
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("fine")))
        });
        let server = hyper::server::conn::http2::Builder::new(LocalExecutor);
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    })
    .await;
    let with = |protocol: Option<&str>| HttpGet { protocol: protocol.map(str::to_owned), ..http_get(port, "/ready") };
    assert!(ask_get(with(Some("HTTP2"))).await.success);
    assert!(!ask_get(with(None)).await.success && !ask_get(with(Some("HTTP1"))).await.success);
}

#[tokio::test(flavor = "local")]
async fn sni_is_the_host_and_authority_the_host_header() {
    for alpn in [&["http/1.1"][..], &["h2"]] {
        let (port, mut seen) = serve_tls(&[&version::TLS13], alpn).await;
        let http_headers = vec![header("Host", "site.example")];
        let get = HttpGet { host: Some("localhost".to_owned()), http_headers, ..https(port) };
        let outcome = ask_get(get).await;
        assert!(outcome.success, "{outcome:?}");
        let (name, _, authority, _) = seen.recv().await.unwrap();
        assert_eq!((name.as_deref(), authority.as_str()), (Some("localhost"), "site.example"));
    }
}

#[tokio::test(flavor = "local")]
async fn redirect_to_https_on_the_same_host_is_followed() {
    let (tls, mut seen) = serve_tls(&[&version::TLS13], &[]).await;
    let (port, _) = serve(move |_| {
        format!("HTTP/1.1 301 Moved\r\nLocation: https://127.0.0.1:{tls}/\r\nContent-Length: 0\r\n\r\n")
    })
    .await;
    let outcome = ask_http(port, "/").await;
    assert!(outcome.success && outcome.warning.is_none(), "{outcome:?}");
    assert!(seen.recv().await.is_some());
}

#[tokio::test(flavor = "local")]
async fn server_without_tls_fails() {
    // The server responds before it reads, like a server that does not wait for a complete line.
    let plain = accept(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1000]).await;
    })
    .await;
    let outcome = ask_get(https(plain)).await;
    assert!(!outcome.success && outcome.detail.starts_with("TLS: "), "{outcome:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn silent_server_fails_at_the_time_limit() {
    let silent = accept(|mut stream| async move { while let Ok(1..) = stream.read(&mut [0; 1000]).await {} }).await;
    let outcome = ask_get(https(silent)).await;
    assert_eq!((outcome.success, outcome.detail.as_str()), (false, "no answer in time"));
}

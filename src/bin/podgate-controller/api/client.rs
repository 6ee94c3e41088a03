//! The client for the API of the sidecar's own cluster, built from kube's parts.
//!
//! `kube::Client::try_from` would add 2 MB to the binary for features that the sidecar never needs: kubeconfig files,
//! credential plugins, proxies and identity providers.

use hyper::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use rustls::pki_types::CertificateDer;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceBuilder;

/// Path of the service account's token. The kubelet replaces the file well before the token expires.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without data after which the kernel sends TCP keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longest wait that the client accepts from `Retry-After`. During the wait, no patch can release a held container.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);

/// Creates a client without connecting to the API server. Fails if no service account is mounted in this container.
pub(crate) fn in_cluster() -> Result<kube::Client, Box<dyn Error>> {
    let config = kube::Config::incluster()?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in config.root_cert.iter().flatten() {
        roots.add(CertificateDer::from(certificate.as_slice()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    // Without keepalive, a watch would not end when the API server vanishes. With keepalive, it ends within a minute.
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE / 3));
    tcp.set_keepalive_retries(Some(3));
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().wrap_connector(tcp);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .map_request(authorize)
        .and_then(wait_if_busy)
        .service(Client::builder(TokioExecutor::new()).build(connector));
    Ok(kube::Client::new(service, config.default_namespace))
}

/// Adds the current token to `request`. The kubelet renews the token file in place, so every request reads the file
/// again. Without a token the API server returns an error.
fn authorize(mut request: Request<Body>) -> Request<Body> {
    if let Ok(token) = std::fs::read_to_string(TOKEN_FILE)
        && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
    {
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    request
}

/// Delays a response by the time in `Retry-After`, which a busy API server sends. The caller then adds a random pause,
/// so that not all sidecars retry at once.
async fn wait_if_busy<B>(response: Response<B>) -> Result<Response<B>, ClientError> {
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(0)).min(RETRY_AFTER_MAX)).await;
    Ok(response)
}

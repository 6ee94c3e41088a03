//! HTTP requests to one registry (<https://github.com/opencontainers/distribution-spec>). Limits the size of answers.
//! Sends no credentials if a redirect leads to another host, or from TLS to plain HTTP.

use super::credentials::Login;
use base64::prelude::{BASE64_STANDARD, Engine};
use http_auth::{ChallengeRef, parse_challenges};
use oci_spec::distribution::Reference;
use reqwest::header::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha512};

/// Maximum size of a manifest or an image configuration, in bytes. Most registries have the same limit for manifests.
/// Typical sizes are a few KiB.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Maximum size of a token service's answer, in bytes.
const MAX_TOKEN_BYTES: usize = 1 << 20;
/// Maximum number of redirects, as in `reqwest`.
const MAX_REDIRECTS: usize = 10;

const MANIFEST_TYPES: &str = "application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json";

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("access denied")]
    Denied,
    #[error("answered {0}")]
    Status(u16),
    #[error("no image for the platform")]
    NoPlatform,
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Request(#[from] reqwest::Error),
}

/// A registry, with the credentials for one image.
pub(super) struct RegistrySession<'a> {
    pub(super) http: &'a Client,
    pub(super) scheme: &'a str,
    pub(super) image: &'a Reference,
    pub(super) login: Option<&'a Login>,
    /// Value of the `Authorization` header. Set by [`authorize`](RegistrySession::authorize).
    pub(super) authorization: Option<String>,
}

/// Creates a client that trusts the system's CA certificates and `certificates`.
pub(super) fn build_http_client(certificates: Vec<Certificate>) -> reqwest::Result<Client> {
    let redirects = Policy::custom(|attempt| {
        let was_secure = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if was_secure && attempt.url().scheme() != "https" || attempt.previous().len() > MAX_REDIRECTS {
            return attempt.error("redirect refused");
        }
        attempt.follow()
    });
    let agent = concat!("kubectl-podgate/", env!("CARGO_PKG_VERSION"));
    Client::builder().user_agent(agent).redirect(redirects).tls_certs_merge(certificates).build()
}

impl RegistrySession<'_> {
    /// Asks the registry for the required type of authorization. If the registry names a token service, gets a token.
    pub(super) async fn authorize(&mut self) -> Result<(), Error> {
        if let Some(Login::Bearer(token)) = self.login {
            self.authorization = Some(format!("Bearer {token}"));
            return Ok(());
        }
        let answer = self.http.get(self.url("")).send().await?;
        let headers = answer.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let headers = headers.collect::<Vec<_>>().join(", ");
        if headers.is_empty() {
            return Ok(());
        }
        let challenges = parse_challenges(&headers).unwrap_or_default();
        if let Some(bearer) = challenges.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer")) {
            self.authorization = Some(format!("Bearer {}", self.fetch_token(bearer).await?));
        } else if let Some(Login::Basic(user, password)) = self.login {
            let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
            self.authorization = Some(format!("Basic {login}"));
        }
        Ok(())
    }

    /// Gets a token from the service in `challenge` (<https://distribution.github.io/distribution/spec/auth/token/>).
    async fn fetch_token(&self, challenge: &ChallengeRef<'_>) -> Result<String, Error> {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let invalid = || Error::Refused("it names no valid token service".to_owned());
        let mut url = Url::parse(&parameter("realm").unwrap_or_default()).map_err(|_| invalid())?;
        let host = url.host_str().ok_or_else(invalid)?.to_owned();
        if self.scheme == "https" && url.scheme() != "https" {
            return Err(Error::Refused(format!(
                "its token service {host} uses http://, but podgate sends credentials over TLS only; configure the \
                 registry with an https:// token service"
            )));
        }
        url.query_pairs_mut().append_pair("scope", &format!("repository:{}:pull", self.image.repository()));
        if let Some(service) = parameter("service") {
            url.query_pairs_mut().append_pair("service", &service);
        }
        let mut request = self.http.get(url);
        if let Some(Login::Basic(user, password)) = self.login {
            request = request.basic_auth(user, Some(password));
        }
        let answer = request.send().await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Error::Denied),
            other => return Err(Error::Refused(format!("its token service {host} answered {other}"))),
        }
        let body = read_body(answer, MAX_TOKEN_BYTES, "answer of the token service").await?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let token = answer["token"].as_str().or_else(|| answer["access_token"].as_str());
        token.map(str::to_owned).ok_or_else(|| Error::Refused(format!("its token service {host} sent no token")))
    }

    /// Returns the manifest with `digest`, and its digest. Without `digest`, returns the manifest of the image's tag.
    pub(super) async fn manifest_and_digest(&self, digest: Option<&str>) -> Result<(Vec<u8>, String), Error> {
        let name = digest.or(self.image.tag()).unwrap_or("latest");
        let answer = self.get(&format!("manifests/{name}"), MANIFEST_TYPES).await?;
        let body = read_body(answer, DOCUMENT_BYTES_MAX, "manifest").await?;
        match digest {
            Some(digest) => verify(&body, digest).map(|()| (body, digest.to_owned())),
            None => {
                let digest = format!("sha256:{}", hex(&Sha256::digest(&body)));
                Ok((body, digest))
            }
        }
    }

    /// Returns the image configuration with `digest`.
    pub(super) async fn config(&self, digest: &str) -> Result<Vec<u8>, Error> {
        let answer = self.get(&format!("blobs/{digest}"), "*/*").await?;
        let body = read_body(answer, DOCUMENT_BYTES_MAX, "image configuration").await?;
        verify(&body, digest).map(|()| body)
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}/v2/{path}", self.scheme, self.image.resolve_registry())
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Response, Error> {
        let url = self.url(&format!("{}/{path}", self.image.repository()));
        let request = self.http.get(url).header(ACCEPT, accept);
        let authorize = |request: RequestBuilder, value: &String| request.header(AUTHORIZATION, value);
        let answer = self.authorization.iter().fold(request, authorize).send().await?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Error::Denied),
            StatusCode::NOT_FOUND => {
                let fix = "check name and tag; a registry may answer this without credentials: pass --pull-secret";
                Err(Error::Refused(format!("image not found; {fix}")))
            }
            other => Err(Error::Status(other.as_u16())),
        }
    }
}

async fn read_body(mut answer: Response, max: usize, what: &str) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > max {
            return Err(Error::Refused(format!("the {what} is larger than {} MiB", max >> 20)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn verify(body: &[u8], digest: &str) -> Result<(), Error> {
    let is_same = match digest.split_once(':') {
        Some(("sha256", wanted)) => hex(&Sha256::digest(body)) == wanted,
        Some(("sha512", wanted)) => hex(&Sha512::digest(body)) == wanted,
        _ => return Err(Error::Refused(format!("unsupported digest {digest}"))),
    };
    if is_same { Ok(()) } else { Err(Error::Refused(format!("the content does not match its digest {digest}"))) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

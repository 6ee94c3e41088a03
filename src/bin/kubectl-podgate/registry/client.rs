//! Registry client with limits on the duration and size of a look-up.

use super::args::Platform;
use super::cache::CommandCache;
use super::credentials::Logins;
use super::image_config::{ImageInfo, parse_command};
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError as Error, OciErrorCode};
use oci_client::manifest::ImageIndexEntry;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use podgate::core::text::{error_chain, one_line};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io::{Cursor, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// Largest accepted image configuration, in bytes. Typical configurations have a few KiB.
const MAX_CONFIG_BYTES: usize = 4 << 20;

/// Longest printed error text, in bytes. Some registries answer with whole HTML pages.
const MAX_ERROR_BYTES: usize = 200;

#[derive(Clone)]
pub(crate) struct RegistrySettings {
    pub(crate) platform: Platform,
    pub(crate) logins: Logins,
    /// PEM certificates to trust besides the system's.
    pub(crate) ca_certificates: Vec<Vec<u8>>,
    /// `HOST[:PORT]` of registries to contact over plain HTTP.
    pub(crate) insecure_hosts: Vec<String>,
    /// Time limit for all requests for one image.
    pub(crate) timeout: Duration,
    /// Cache folder for looked-up commands.
    pub(crate) cache_folder: Option<PathBuf>,
}

/// Client for all registries, with credentials and a cache.
pub(crate) struct RegistryClient {
    settings: RegistrySettings,
    cache: CommandCache,
    https: Client,
    http: Client,
}

impl RegistryClient {
    /// # Errors
    /// One line, if a CA certificate is invalid.
    pub(crate) fn new(settings: RegistrySettings) -> Result<RegistryClient, String> {
        // Fails if a provider is installed already. The error is ignored, because the program always installs the same
        // one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let https = build_client(&settings, ClientProtocol::Https)?;
        let http = build_client(&settings, ClientProtocol::Http)?;
        Ok(RegistryClient { cache: CommandCache(settings.cache_folder.clone()), settings, https, http })
    }

    /// Looks up the Entrypoint and Cmd of `image`.
    ///
    /// # Errors
    /// One line, without the image's name.
    pub(crate) async fn look_up(&self, image: &str) -> Result<ImageInfo, String> {
        let reference: Reference = image.parse().map_err(|error| format!("invalid image name: {error}"))?;
        let limit = self.settings.timeout;
        let asked = tokio::time::timeout(limit, self.fetch(&reference)).await;
        let registry = reference.resolve_registry();
        let limit = humantime::format_duration(limit);
        asked.unwrap_or_else(|_| Err(format!("no answer from {registry} within {limit} (--registry-timeout)")))
    }

    async fn fetch(&self, image: &Reference) -> Result<ImageInfo, String> {
        let registry = image.resolve_registry();
        // The content of a digest never changes, so a cached command needs no request.
        if let Some(found) = image.digest().and_then(|digest| self.cached(digest)) {
            return Ok(found);
        }
        let answer = if self.settings.insecure_hosts.iter().any(|host| host == registry) {
            self.fetch_with_logins(ClientProtocol::Http, image).await
        } else {
            match self.fetch_with_logins(ClientProtocol::Https, image).await {
                // Retry over HTTP: local registries seldom have a certificate, and local traffic can't be intercepted.
                Err(Error::RequestError(error)) if is_local(registry) && error.is_connect() => {
                    match self.fetch_with_logins(ClientProtocol::Http, image).await {
                        // A TLS server answers 400 to plain HTTP. Report the TLS error instead.
                        Err(Error::ServerError { code: 400, .. }) => Err(Error::RequestError(error)),
                        plain => plain,
                    }
                }
                answer => answer,
            }
        };
        answer.map_err(|error| self.explain(image, &error))
    }

    fn cached(&self, digest: &str) -> Option<ImageInfo> {
        let command = self.cache.get(digest, &self.settings.platform.to_string())?;
        Some(ImageInfo { digest: digest.to_owned(), command })
    }

    /// Tries the matching credentials one after the other. Pulls anonymously if there are no matching credentials.
    async fn fetch_with_logins(&self, protocol: ClientProtocol, image: &Reference) -> Result<ImageInfo, Error> {
        let shared = if protocol == ClientProtocol::Http { &self.http } else { &self.https };
        let logins = self.settings.logins.for_image(image.resolve_registry(), image.repository());
        let (last, others) = match logins.as_slice() {
            [] => return self.pull(shared, image, &RegistryAuth::Anonymous).await,
            [one] => return self.pull(shared, image, one).await,
            [others @ .., last] => (last, others),
        };
        // A client caches the first credentials that it uses. Create a separate client for each set of credentials.
        let fresh = || build_client(&self.settings, protocol.clone()).unwrap_or_else(|_| shared.clone());
        for login in others {
            match self.pull(&fresh(), image, login).await {
                Err(error) if is_denied(&error) => {}
                other => return other,
            }
        }
        self.pull(&fresh(), image, last).await
    }

    async fn pull(&self, client: &Client, image: &Reference, auth: &RegistryAuth) -> Result<ImageInfo, Error> {
        let digest = match image.digest() {
            Some(digest) => digest.to_owned(),
            None => client.fetch_manifest_digest(image, auth).await?,
        };
        if let Some(found) = self.cached(&digest) {
            return Ok(found);
        }
        // Use the digest from here on, because the tag may move between two requests.
        let pinned = image.clone_with_digest(digest.clone());
        let (manifest, ..) = client.pull_image_manifest_and_list_digest(&pinned, auth).await?;
        let mut config = Cursor::new(vec![0; MAX_CONFIG_BYTES].into_boxed_slice());
        client.pull_blob(&pinned, &manifest.config, &mut config).await?;
        let config = &config.get_ref()[..config.position() as usize];
        let command = parse_command(&String::from_utf8_lossy(config))
            .ok_or_else(|| Error::SpecViolationError("its configuration is not an image configuration".to_owned()))?;
        self.cache.put(&digest, &self.settings.platform.to_string(), &command);
        Ok(ImageInfo { digest, command })
    }

    fn explain(&self, image: &Reference, error: &Error) -> String {
        let registry = image.resolve_registry();
        match error {
            error if is_denied(error) => {
                let helper = match self.settings.logins.has_helper {
                    true => "; podgate does not run the credential helper of the Docker configuration",
                    false => "",
                };
                format!("{registry}: access denied; pass credentials with --pull-secret{helper}")
            }
            // The client returns this error only for an index without a manifest for the platform.
            Error::ImageManifestNotFoundError(_) => {
                format!("no image for platform {}; pass another --platform", self.settings.platform)
            }
            error if is_not_found(error) => format!("{registry}: image not found"),
            Error::RequestError(error) if error.is_timeout() => format!("no answer from {registry}"),
            Error::RequestError(error) => format!("request to {registry} failed: {}", error_chain(error)),
            Error::ServerError { code, .. } => format!("{registry} answered {code}"),
            Error::IoError(error) if error.kind() == ErrorKind::WriteZero => {
                format!("{registry}: the image configuration is larger than {} MiB", MAX_CONFIG_BYTES >> 20)
            }
            Error::IoError(error) => format!("{registry}: {error}"),
            other => format!("{registry}: {}", one_line(&other.to_string(), MAX_ERROR_BYTES)),
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

fn build_client(settings: &RegistrySettings, protocol: ClientProtocol) -> Result<Client, String> {
    let mut certificates = Vec::new();
    for pem in &settings.ca_certificates {
        let before = certificates.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("--registry-ca: invalid certificate: {error}"))?;
            certificates.push(Certificate { encoding: CertificateEncoding::Der, data: certificate.to_vec() });
        }
        if certificates.len() == before {
            return Err("--registry-ca: a file contains no PEM certificate".to_owned());
        }
    }
    let platform = settings.platform.clone();
    let config = ClientConfig {
        protocol,
        extra_root_certificates: certificates,
        platform_resolver: Some(Box::new(move |entries| platform_digest(&platform, entries))),
        connect_timeout: Some(settings.timeout),
        read_timeout: Some(settings.timeout),
        user_agent: concat!("kubectl-podgate/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    };
    Client::try_from(config)
        .map_err(|error| format!("can't create the registry client: {}", one_line(&error.to_string(), MAX_ERROR_BYTES)))
}

/// Returns the digest of the first manifest for `platform`. A platform without a variant matches every variant:
/// `linux/arm64` matches `linux/arm64/v8`.
fn platform_digest(platform: &Platform, entries: &[ImageIndexEntry]) -> Option<String> {
    let matches = |entry: &&ImageIndexEntry| {
        entry.platform.as_ref().is_some_and(|offered| {
            offered.os.to_string() == platform.os
                && offered.architecture.to_string() == platform.architecture
                && (platform.variant.is_none() || platform.variant == offered.variant)
        })
    };
    entries.iter().find(matches).map(|entry| entry.digest.clone())
}

fn is_denied(error: &Error) -> bool {
    match error {
        Error::UnauthorizedError { .. } | Error::AuthenticationFailure(_) => true,
        Error::ServerError { code, .. } => matches!(code, 401 | 403),
        Error::RegistryError { envelope, .. } => {
            envelope.errors.iter().any(|error| matches!(error.code, OciErrorCode::Unauthorized | OciErrorCode::Denied))
        }
        _ => false,
    }
}

fn is_not_found(error: &Error) -> bool {
    let codes = [OciErrorCode::ManifestUnknown, OciErrorCode::NameUnknown, OciErrorCode::NotFound];
    match error {
        Error::ServerError { code, .. } => *code == 404,
        Error::RegistryError { envelope, .. } => envelope.errors.iter().any(|error| codes.contains(&error.code)),
        _ => false,
    }
}

/// Returns true for a registry on this machine.
fn is_local(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_registries_are_recognized() {
        for (registry, local) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:80", true),
            ("127.1.2.3", true),
            ("[::1]:5000", true),
            ("localhost.example:5000", false),
            ("10.0.0.1:5000", false),
            ("docker.io", false),
        ] {
            assert_eq!(is_local(registry), local, "{registry}");
        }
    }
}

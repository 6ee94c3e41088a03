//! Looks up images in registries, with a time limit and credentials.

use super::RegistryArgs;
use super::connection::{Error, RegistrySession, build_http_client};
use super::credentials::{Login, Logins};
use crate::error::CommandResult;
use oci_spec::distribution::Reference;
use podgate::core::text::{error_chain, one_line};
use podgate::order::plan::ImageCommand;
use reqwest::{Certificate, Client};
use serde_json::Value;
use std::path::PathBuf;

/// Maximum length of a printed error message, in bytes.
const MAX_ERROR_BYTES: usize = 200;

/// Client for all registries, with credentials.
pub(crate) struct RegistryClient<'a> {
    args: &'a RegistryArgs,
    logins: Logins,
    http: Client,
}

impl<'a> RegistryClient<'a> {
    /// Creates a client that also trusts the certificates in `ca_files`, each with its path and PEM text.
    pub(crate) fn new(args: &'a RegistryArgs, logins: Logins, ca_files: &[(PathBuf, String)]) -> CommandResult<Self> {
        // Ignore the error if a provider is installed already: the program always installs the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut certificates = Vec::new();
        for (path, pem) in ca_files {
            let refuse = |what| format!("--registry-ca {}: {what}; pass a PEM file", path.display());
            let found = Certificate::from_pem_bundle(pem.as_bytes()).map_err(|_| refuse("invalid certificate"))?;
            if found.is_empty() {
                return Err(refuse("no PEM certificate found").into());
            }
            certificates.extend(found);
        }
        let http = build_http_client(certificates).map_err(|error| {
            format!("cannot create the registry client: {}", one_line(&error_chain(&error), MAX_ERROR_BYTES))
        })?;
        Ok(Self { args, logins, http })
    }

    /// Looks up the Entrypoint and Cmd of `image`. An error does not name the image.
    pub(crate) async fn look_up(&self, image: &str) -> Result<ImageCommand, String> {
        let reference: Reference = image.parse().map_err(|error| format!("invalid image name: {error}"))?;
        let limit = self.args.registry_timeout;
        let asked = tokio::time::timeout(limit, self.fetch(&reference)).await;
        let registry = reference.resolve_registry();
        let limit = humantime::format_duration(limit);
        asked.unwrap_or_else(|_| Err(format!("no answer from {registry} within {limit} (--registry-timeout)")))
    }

    async fn fetch(&self, image: &Reference) -> Result<ImageCommand, String> {
        let registry = image.resolve_registry();
        let answer = if self.args.insecure_registry.iter().any(|host| host == registry) {
            self.fetch_with_logins("http", image).await
        } else {
            match self.fetch_with_logins("https", image).await {
                // Retry over HTTP: local registries seldom have a certificate, and local traffic cannot be intercepted.
                Err(Error::Request(error)) if is_local(registry) && error.is_connect() => {
                    match self.fetch_with_logins("http", image).await {
                        // A TLS server answers 400 to plain HTTP. Report the TLS error instead.
                        Err(Error::Status(400)) => Err(Error::Request(error)),
                        plain => plain,
                    }
                }
                answer => answer,
            }
        };
        answer.map_err(|error| self.explain(image, &error))
    }

    /// Tries the matching credentials one after the other. Pulls anonymously if there are no matching credentials.
    async fn fetch_with_logins(&self, scheme: &str, image: &Reference) -> Result<ImageCommand, Error> {
        let logins = self.logins.for_image(image.resolve_registry(), image.repository());
        let Some((last, others)) = logins.split_last() else { return self.pull(scheme, image, None).await };
        for login in others {
            match self.pull(scheme, image, Some(login)).await {
                Err(Error::Denied) => {}
                other => return other,
            }
        }
        self.pull(scheme, image, Some(last)).await
    }

    async fn pull(&self, scheme: &str, image: &Reference, login: Option<&Login>) -> Result<ImageCommand, Error> {
        let mut registry = RegistrySession { http: &self.http, scheme, image, login, authorization: None };
        registry.authorize().await?;
        let (body, digest) = registry.manifest_and_digest(image.digest()).await?;
        let mut manifest = parse_manifest(&body)?;
        if let Some(entries) = manifest["manifests"].as_array().filter(|entries| !entries.is_empty()) {
            let own = platform_digest(&self.args.platform, entries).ok_or(Error::NoPlatform)?;
            manifest = parse_manifest(&registry.manifest_and_digest(Some(own)).await?.0)?;
        }
        let config = manifest["config"]["digest"].as_str();
        let config = config.ok_or_else(|| Error::Refused("the manifest names no configuration".to_owned()))?;
        parse_command(&String::from_utf8_lossy(&registry.config(config).await?), digest)
            .ok_or_else(|| Error::Refused("the manifest's configuration is not an image configuration".to_owned()))
    }

    fn explain(&self, image: &Reference, error: &Error) -> String {
        let registry = image.resolve_registry();
        match error {
            Error::Denied => {
                let helper = match self.logins.has_helper {
                    true => format!(
                        "; podgate does not run the credential helper of the Docker configuration, but reads its answer: \
                         echo {registry} | docker-credential-NAME get | kubectl podgate … --pull-secret -"
                    ),
                    false => String::new(),
                };
                format!("{registry}: access denied; pass credentials with --pull-secret{helper}")
            }
            Error::NoPlatform => format!("no image for platform {}; pass another --platform", self.args.platform),
            Error::Request(error) => format!("request to {registry} failed: {}", error_chain(error)),
            Error::Status(code) => format!("{registry} answered {code}"),
            Error::Refused(why) => format!("{registry}: {}", one_line(why, MAX_ERROR_BYTES)),
        }
    }
}

fn parse_manifest(body: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Refused(format!("invalid manifest: {error}")))
}

/// Parses the image configuration (<https://github.com/opencontainers/image-spec/blob/main/config.md>) of the image
/// with this digest.
fn parse_command(config: &str, digest: String) -> Option<ImageCommand> {
    let config: Value = serde_json::from_str(config).ok()?;
    // If an image sets no options, Docker omits `config` or writes null.
    let words = |field: &str| match config.get("config").and_then(|config| config.get(field)) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(words)) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    config.is_object().then_some(())?;
    Some(ImageCommand { entrypoint: words("Entrypoint")?, cmd: words("Cmd")?, digest })
}

/// Returns the digest of the first manifest for `platform`. A platform without a variant matches every variant:
/// `linux/arm64` matches `linux/arm64/v8`.
fn platform_digest<'a>(platform: &str, entries: &'a [Value]) -> Option<&'a str> {
    let matches = |entry: &&Value| {
        let offered = ["os", "architecture", "variant"].map(|field| &entry["platform"][field]);
        platform.split('/').zip(offered).all(|(wanted, offered)| offered == wanted)
    };
    entries.iter().find(matches)?["digest"].as_str()
}

fn is_local(registry: &str) -> bool {
    let port = registry.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = port.map_or(registry, |(host, _)| host).trim_start_matches('[').trim_end_matches(']');
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

//! Creates the webhook's certificates, stores them in a Secret that all replicas share, and publishes the certificates'
//! CAs in the webhook configuration.
//!
//! All replicas run the same steps. Each write carries the resourceVersion that the replica has read, so one of two
//! concurrent writes fails with a conflict. The replica with the conflict reads again and finds no change left to make.

use super::pair::CertPair;
use super::rollover::{self, RolloverInputs, StoredCerts};
use crate::args::Args;
use crate::clock::{now, wall_clock};
use crate::error::Error;
use crate::state::State;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ServiceReference};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use podgate::core::text::error_chain;
use serde_json::json;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// Limit on immediate retries after a conflict.
const ATTEMPTS_MAX: usize = 5;
/// Advice for a missing object or permission.
const INSTALL: &str = "install podgate again (kubectl podgate install, or the Helm chart)";
const SECRET_KEYS: [&str; 7] =
    ["ca.crt", "tls.crt", "tls.key", "next-ca.crt", "next-tls.crt", "next-tls.key", "old-ca.crt"];

pub(crate) struct CertKeeper {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    args: Args,
    namespace: String,
    dns_names: Vec<String>,
    served: Option<CertPair>,
    /// CA of `next`, and the time at which this replica first found it in the configuration. `None` without `next`.
    propagating: Option<(Vec<u8>, Instant)>,
}

impl CertKeeper {
    /// Creates a keeper for the Secret and the configuration that the flags select. Fails if the Service's name is
    /// invalid.
    pub(super) fn new(args: &Args, client: Client, namespace: String) -> Result<CertKeeper, Error> {
        let name = format!("{}.{namespace}", args.service);
        let names = vec![format!("{name}.svc"), name.clone(), format!("{name}.svc.cluster.local")];
        if rustls::pki_types::ServerName::try_from(names[2].as_str()).is_err() {
            return Err(Error::Fixable(format!("{name:?} is not a valid Service name"), "check --service".to_owned()));
        }
        Ok(CertKeeper {
            secrets: Api::namespaced(client.clone(), &namespace),
            configurations: Api::all(client),
            args: args.clone(),
            namespace,
            dns_names: names,
            served: None,
            propagating: None,
        })
    }

    pub(super) fn reconcile_interval(&self, state: &State) -> Duration {
        let interval = rollover::reconcile_interval(self.args.certificate_life);
        let is_urgent = state.served_cert.unusable_reason(wall_clock()).is_some();
        if is_urgent { interval.min(Duration::from_secs(2)) } else { interval }
    }

    pub(super) async fn reconcile(&mut self, state: &State) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            match self.reconcile_once(state).await {
                Err(Error::Conflict) => debug!("conflict with another replica; reading again"),
                ended => return ended,
            }
        }
        Err(Error::Conflict)
    }

    /// Updates the Secret, then the webhook configuration, then the served certificate.
    async fn reconcile_once(&mut self, state: &State) -> Result<(), Error> {
        let name = &self.args.secret;
        let secret = self.request("get the Secret", name, self.secrets.get(name)).await?;
        let before = certs_from_secret(&secret);
        let after = self.next_certs(&before)?;
        if after != before {
            let written = store_in_secret(secret, &after);
            let parameters = PostParams::default();
            self.request("update the Secret", name, self.secrets.replace(name, &parameters, &written)).await?;
            let (is_new, has_next) = (after.current != before.current, after.next.is_some());
            info!(is_new, has_next, has_old_ca = after.old_ca.is_some(), "certificates changed");
        }
        // Serve a certificate only after it is stored and its CA is published. If the configuration cannot be written,
        // serve the certificate anyway, because the other replicas serve it too.
        let published = self.publish_cas(&after).await;
        if let Some(pair) = after.current
            && self.served.as_ref() != Some(&pair)
            && let Ok((key, life)) = pair.verify(&self.dns_names, wall_clock())
        {
            state.serve_cert(key, life);
            self.served = Some(pair);
        }
        let bundle = published?;
        let in_bundle = |ca: &[u8]| !ca.is_empty() && bundle.windows(ca.len()).any(|part| part == ca);
        state.served_cert.set_ca_trusted(self.served.as_ref().is_some_and(|pair| in_bundle(&pair.ca)));
        let before = self.propagating.take();
        self.propagating =
            after.next.map(|next| before.filter(|(ca, _)| *ca == next.ca).unwrap_or_else(|| (next.ca, now())));
        Ok(())
    }

    fn next_certs(&self, stored: &StoredCerts) -> Result<StoredCerts, Error> {
        let next = stored.next.as_ref().map(|next| &next.ca);
        let is_propagated = self.propagating.as_ref().is_some_and(|(ca, since)| {
            Some(ca) == next && since.elapsed() >= rollover::propagation_time(self.args.certificate_life)
        });
        let now = RolloverInputs {
            time: wall_clock(),
            life: self.args.certificate_life,
            is_propagated,
            served: self.served.as_ref(),
            names: &self.dns_names,
        };
        rollover::next_certs(stored, &now)
    }

    /// Writes the CA bundle to the configuration's webhooks that have a different bundle. Returns the new bundle.
    async fn publish_cas(&self, stored: &StoredCerts) -> Result<Vec<u8>, Error> {
        let name = &self.args.configuration;
        let found = self.request("get the MutatingWebhookConfiguration", name, self.configurations.get(name)).await?;
        let bundle = stored.ca_bundle();
        let ours =
            |service: &ServiceReference| service.name == self.args.service && service.namespace == self.namespace;
        let webhooks = found.webhooks.iter().flatten();
        let webhooks: Vec<_> = webhooks.filter(|w| w.client_config.service.as_ref().is_some_and(ours)).collect();
        if webhooks.is_empty() {
            let (service, namespace) = (&self.args.service, &self.namespace);
            let what = format!(
                "no webhook in the MutatingWebhookConfiguration {name} calls the Service {service} in {namespace}"
            );
            return Err(Error::Fixable(what, format!("check --configuration and --service, or {INSTALL}")));
        }
        let behind = webhooks.iter().filter(|w| w.client_config.ca_bundle.as_ref().is_none_or(|ca| ca.0 != bundle));
        // A strategic merge patch matches webhooks by name and does not change their other fields.
        let changes: Vec<_> =
            behind.map(|w| json!({"name": w.name, "clientConfig": {"caBundle": ByteString(bundle.clone())}})).collect();
        if changes.is_empty() {
            return Ok(bundle);
        }
        let patch = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": changes,
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let write = self.configurations.patch(name, &parameters, &patch);
        self.request("patch the MutatingWebhookConfiguration", name, write).await?;
        info!(configuration = name, bytes = bundle.len(), "published the CAs to the API server");
        Ok(bundle)
    }

    async fn request<T>(
        &self,
        what: &str,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let what = |why: &str| format!("cannot {what} {name}: {why}");
        match tokio::time::timeout(self.args.request_timeout, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(match status.code {
                409 => Error::Conflict,
                404 => Error::Fixable(what("not found"), format!("to create it, {INSTALL}")),
                403 => Error::Fixable(what(&status.message), format!("to bind the webhook's role, {INSTALL}")),
                _ => what(&status.message).into(),
            }),
            Ok(Err(error)) => Err(what(&error_chain(&error)).into()),
            Err(_) => Err(what("timed out").into()),
        }
    }
}

fn certs_from_secret(secret: &Secret) -> StoredCerts {
    let get = |key| Some(secret.data.as_ref()?.get(key)?.0.clone());
    let pair = |[ca, cert, key]: [_; 3]| Some(CertPair { ca: ca?, cert: cert?, key: key? });
    let [ca, cert, key, next_ca, next_cert, next_key, old_ca] = SECRET_KEYS.map(get);
    StoredCerts { current: pair([ca, cert, key]), next: pair([next_ca, next_cert, next_key]), old_ca }
}

/// Stores `certs` in `secret` and keeps unrelated keys.
fn store_in_secret(mut secret: Secret, certs: &StoredCerts) -> Secret {
    let data = secret.data.get_or_insert_default();
    let pair = |pair: &Option<CertPair>| match pair.clone() {
        Some(CertPair { ca, cert, key }) => [Some(ca), Some(cert), Some(key)],
        None => [None, None, None],
    };
    let values = [pair(&certs.current), pair(&certs.next)].into_iter().flatten().chain([certs.old_ca.clone()]);
    for (key, value) in SECRET_KEYS.into_iter().zip(values) {
        match value {
            Some(value) => drop(data.insert(key.to_owned(), ByteString(value))),
            None => drop(data.remove(key)),
        }
    }
    secret
}

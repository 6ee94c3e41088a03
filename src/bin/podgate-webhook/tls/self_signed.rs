//! Certificates of the webhook's own making: kept in a Secret that all replicas share, their CAs told to the API server.
//!
//! Every replica does the same at its own times. Writes carry the resourceVersion of what was read: of two at a time one is refused,
//! looks again, and finds nothing left to do.

use super::pair::{self, CertPair};
use super::rollover::{self, RolloverInputs, StoredCerts};
use crate::args::Args;
use crate::certificate::Validity;
use crate::clock::{now, wall_time};
use crate::state::State;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ServiceReference};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use podgate::core::text::error_chain;
use rustls::sign::CertifiedKey;
use serde_json::json;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Looks in a row, where another replica was quicker each time, before it waits.
const ATTEMPTS_MAX: usize = 5;
/// The keys of the Secret.
const SECRET_KEYS: [&str; 7] =
    ["ca.crt", "tls.crt", "tls.key", "next-ca.crt", "next-tls.crt", "next-tls.key", "old-ca.crt"];

pub(crate) struct CertKeeper {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    args: Args,
    namespace: String,
    dns_names: Vec<String>,
    /// What is shown.
    served: Option<CertPair>,
    /// The CA that stands by, and since when this replica has seen it in the webhook configuration.
    propagating: Option<(Vec<u8>, Instant)>,
}

/// Why a look came to nothing.
enum StepError {
    /// Somebody else has written meanwhile.
    Conflict,
    Failed(String),
}

impl CertKeeper {
    /// # Errors
    /// One line: names that can't be.
    pub(super) fn new(args: &Args, client: Client, namespace: String) -> Result<CertKeeper, String> {
        let name = format!("{}.{namespace}", args.service);
        let names = vec![format!("{name}.svc"), name.clone(), format!("{name}.svc.cluster.local")];
        if rustls::pki_types::ServerName::try_from(names[2].as_str()).is_err() {
            return Err(format!("{name:?} can't be the name of a Service: see --service"));
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

    /// The pause until the next look.
    pub(super) fn reconcile_interval(&self, state: &State) -> Duration {
        let interval = rollover::reconcile_interval(self.args.certificate_life);
        if state.served_cert.unusable_reason(wall_time()).is_some() {
            interval.min(Duration::from_secs(2))
        } else {
            interval
        }
    }

    pub(super) async fn reconcile(&mut self, state: &State) -> Result<(), String> {
        for _ in 0..ATTEMPTS_MAX {
            match self.reconcile_once(state).await {
                Ok(()) => return Ok(()),
                Err(StepError::Conflict) => debug!("another replica was quicker; looks again"),
                Err(StepError::Failed(error)) => return Err(error),
            }
        }
        Err("others write to the Secret or the MutatingWebhookConfiguration all the time".to_owned())
    }

    /// One step: the Secret as it is to be, then the webhook configuration, then what is shown.
    async fn reconcile_once(&mut self, state: &State) -> Result<(), StepError> {
        let name = &self.args.secret;
        let secret = self.request("get the Secret", name, self.secrets.get(name)).await?;
        let before = certs_from_secret(&secret);
        let after = self.next_certs(&before).map_err(StepError::Failed)?;
        if after != before {
            let written = store_in_secret(secret, &after);
            let parameters = PostParams::default();
            self.request("update the Secret", name, self.secrets.replace(name, &parameters, &written)).await?;
            let (is_new, has_next) = (after.current != before.current, after.next.is_some());
            info!(is_new, has_next, has_old_ca = after.old_ca.is_some(), "certificates changed");
        }
        // What is shown is never ahead of what is kept, nor of what the API server has been told; but a configuration that can't
        // be written must not keep a certificate from being shown that the other replicas show.
        let told = self.publish_cas(&after).await;
        if let Some(pair) = after.current
            && self.served.as_ref() != Some(&pair)
            && let Some((key, life)) = self.verify_pair(&pair)
        {
            state.serve_cert(key, life);
            self.served = Some(pair);
        }
        let bundle = told?;
        let in_bundle = |ca: &[u8]| !ca.is_empty() && bundle.windows(ca.len()).any(|part| part == ca);
        state.served_cert.set_trusted(self.served.as_ref().is_some_and(|pair| in_bundle(&pair.ca)));
        self.propagating = match (after.next, self.propagating.take()) {
            (Some(next), Some((ca, since))) if next.ca == ca => Some((ca, since)),
            (Some(next), _) => Some((next.ca, now())),
            (None, _) => None,
        };
        Ok(())
    }

    fn next_certs(&self, kept: &StoredCerts) -> Result<StoredCerts, String> {
        let time = wall_time();
        let next = kept.next.as_ref().map(|next| &next.ca);
        let is_ripe = self.propagating.as_ref().is_some_and(|(ca, since)| {
            Some(ca) == next && since.elapsed() >= rollover::propagation_time(self.args.certificate_life)
        });
        let now = RolloverInputs {
            time,
            life: self.args.certificate_life,
            is_propagated: is_ripe,
            served: self.served.as_ref(),
            validity_of: &|pair| Some(self.verify_pair(pair)?.1),
            is_ca_valid: &|ca| pair::is_ca_valid(ca, time),
            generate: &|| CertPair::generate(&self.dns_names, time, self.args.certificate_life),
        };
        rollover::next_certs(kept, &now)
    }

    /// What can be shown of `pair` now.
    fn verify_pair(&self, pair: &CertPair) -> Option<(CertifiedKey, Validity)> {
        let checked = pair.verify(&self.dns_names, wall_time());
        checked.inspect_err(|why| warn!(why, "a certificate in the Secret is of no use")).ok()
    }

    /// Makes sure that the webhook configuration has all CAs; what it then has.
    async fn publish_cas(&self, kept: &StoredCerts) -> Result<Vec<u8>, StepError> {
        let name = &self.args.configuration;
        let found = self.request("get the MutatingWebhookConfiguration", name, self.configurations.get(name)).await?;
        let bundle = kept.ca_bundle();
        let ours =
            |service: &ServiceReference| service.name == self.args.service && service.namespace == self.namespace;
        let webhooks = found.webhooks.iter().flatten();
        let webhooks: Vec<_> = webhooks.filter(|w| w.client_config.service.as_ref().is_some_and(ours)).collect();
        if webhooks.is_empty() {
            let (service, namespace) = (&self.args.service, &self.namespace);
            let what = format!(
                "no webhook in the MutatingWebhookConfiguration {name} calls the Service {service} in {namespace}"
            );
            return Err(StepError::Failed(what));
        }
        let behind = webhooks.iter().filter(|w| w.client_config.ca_bundle.as_ref().is_none_or(|ca| ca.0 != bundle));
        // Strategic: webhooks are found by their names, and nothing else of them is touched.
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
        info!(configuration = name, bytes = bundle.len(), "told the API server which CAs to trust");
        Ok(bundle)
    }

    async fn request<T>(
        &self,
        what: &str,
        name: &str,
        question: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, StepError> {
        let failed = |why: &str| StepError::Failed(format!("can't {what} {name}: {why}"));
        match tokio::time::timeout(self.args.request_timeout, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(match status.code {
                409 => StepError::Conflict,
                404 => failed("there is none; apply manifests/injector (or the chart) again, which has an empty one"),
                _ => failed(&status.message),
            }),
            Ok(Err(error)) => Err(failed(&error_chain(&error))),
            Err(_) => Err(failed("no answer in time")),
        }
    }
}

fn certs_from_secret(secret: &Secret) -> StoredCerts {
    let get = |key| Some(secret.data.as_ref()?.get(key)?.0.clone());
    let pair = |[ca, cert, key]: [_; 3]| Some(CertPair { ca: ca?, cert: cert?, key: key? });
    let [ca, cert, key, next_ca, next_cert, next_key, old_ca] = SECRET_KEYS.map(get);
    StoredCerts { current: pair([ca, cert, key]), next: pair([next_ca, next_cert, next_key]), old_ca }
}

/// `secret`, keeping `certs_from_secret`; whatever else is in it stays.
fn store_in_secret(mut secret: Secret, kept: &StoredCerts) -> Secret {
    let data = secret.data.get_or_insert_default();
    let pair = |pair: &Option<CertPair>| match pair.clone() {
        Some(CertPair { ca, cert, key }) => [Some(ca), Some(cert), Some(key)],
        None => [None, None, None],
    };
    let values = [pair(&kept.current), pair(&kept.next)].into_iter().flatten().chain([kept.old_ca.clone()]);
    for (key, value) in SECRET_KEYS.into_iter().zip(values) {
        match value {
            Some(value) => drop(data.insert(key.to_owned(), ByteString(value))),
            None => drop(data.remove(key)),
        }
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_secret_holds_all_of_it_and_nothing_more() {
        let pair = |n: u8| CertPair { ca: vec![n], cert: vec![n, 1], key: vec![n, 2] };
        let full = StoredCerts { current: Some(pair(1)), next: Some(pair(2)), old_ca: Some(vec![3]) };
        let data = Some(BTreeMap::from([("other".to_owned(), ByteString(vec![9]))]));
        let secret = Secret { data, ..Secret::default() };
        let secret = store_in_secret(secret, &full);
        assert_eq!(certs_from_secret(&secret), full);
        assert_eq!(secret.data.as_ref().unwrap().len(), 8);
        let less = StoredCerts { next: None, old_ca: None, ..full };
        let secret = store_in_secret(secret, &less);
        assert_eq!(certs_from_secret(&secret), less);
        assert_eq!(secret.data.unwrap().into_keys().collect::<Vec<_>>(), ["ca.crt", "other", "tls.crt", "tls.key"]);
        assert_eq!(certs_from_secret(&Secret::default()), StoredCerts::default());
    }
}

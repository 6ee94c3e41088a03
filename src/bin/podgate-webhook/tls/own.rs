//! Certificates of the webhook's own making: kept in a Secret that all replicas share, their CAs told to the API server.
//!
//! Every replica does the same at its own times. Writes carry the resourceVersion of what was read: of two at a time one is refused,
//! looks again, and finds nothing left to do.

use super::pair::{self, Pair};
use super::rollover::{self, Kept, Now};
use crate::args::Args;
use crate::certificate::Life;
use crate::clock::{now, wall};
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
const TRIES: usize = 5;
/// The keys of the Secret.
const KEYS: [&str; 7] = ["ca.crt", "tls.crt", "tls.key", "next-ca.crt", "next-tls.crt", "next-tls.key", "old-ca.crt"];

pub(crate) struct Keeper {
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    args: Args,
    namespace: String,
    names: Vec<String>,
    /// What is shown.
    shown: Option<Pair>,
    /// The CA that stands by, and since when this replica has seen it in the webhook configuration.
    ripening: Option<(Vec<u8>, Instant)>,
}

/// Why a look came to nothing.
enum Trouble {
    /// Somebody else has written meanwhile.
    Overtaken,
    Failed(String),
}

impl Keeper {
    /// # Errors
    /// One line: names that can't be.
    pub(super) fn new(args: &Args, client: Client, namespace: String) -> Result<Keeper, String> {
        let name = format!("{}.{namespace}", args.service);
        let names = vec![format!("{name}.svc"), name.clone(), format!("{name}.svc.cluster.local")];
        if rustls::pki_types::ServerName::try_from(names[2].as_str()).is_err() {
            return Err(format!("{name:?} can't be the name of a Service: see --service"));
        }
        Ok(Keeper {
            secrets: Api::namespaced(client.clone(), &namespace),
            configurations: Api::all(client),
            args: args.clone(),
            namespace,
            names,
            shown: None,
            ripening: None,
        })
    }

    /// The pause until the next look.
    pub(super) fn interval(&self, state: &State) -> Duration {
        let interval = rollover::interval(self.args.certificate_life);
        if state.shown.trouble(wall()).is_some() { interval.min(Duration::from_secs(2)) } else { interval }
    }

    pub(super) async fn look_until_settled(&mut self, state: &State) -> Result<(), String> {
        for _ in 0..TRIES {
            match self.look(state).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Overtaken) => debug!("another replica was quicker; looks again"),
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err("others write to the Secret or the MutatingWebhookConfiguration all the time".to_owned())
    }

    /// One step: the Secret as it is to be, then the webhook configuration, then what is shown.
    async fn look(&mut self, state: &State) -> Result<(), Trouble> {
        let name = &self.args.secret;
        let secret = self.ask("get the Secret", name, self.secrets.get(name)).await?;
        let before = kept(&secret);
        let after = self.step(&before).map_err(Trouble::Failed)?;
        if after != before {
            let written = with(secret, &after);
            let parameters = PostParams::default();
            self.ask("update the Secret", name, self.secrets.replace(name, &parameters, &written)).await?;
            let (is_new, has_next) = (after.current != before.current, after.next.is_some());
            info!(is_new, has_next, has_old_ca = after.old_ca.is_some(), "certificates changed");
        }
        // What is shown is never ahead of what is kept, nor of what the API server has been told; but a configuration that can't
        // be written must not keep a certificate from being shown that the other replicas show.
        let told = self.tell(&after).await;
        if let Some(pair) = after.current
            && self.shown.as_ref() != Some(&pair)
            && let Some((key, life)) = self.usable(&pair)
        {
            state.show(key, life);
            self.shown = Some(pair);
        }
        let bundle = told?;
        let in_bundle = |ca: &[u8]| !ca.is_empty() && bundle.windows(ca.len()).any(|part| part == ca);
        state.shown.set_trusted(self.shown.as_ref().is_some_and(|pair| in_bundle(&pair.ca)));
        self.ripening = match (after.next, self.ripening.take()) {
            (Some(next), Some((ca, since))) if next.ca == ca => Some((ca, since)),
            (Some(next), _) => Some((next.ca, now())),
            (None, _) => None,
        };
        Ok(())
    }

    fn step(&self, kept: &Kept) -> Result<Kept, String> {
        let time = wall();
        let next = kept.next.as_ref().map(|next| &next.ca);
        let is_ripe = self.ripening.as_ref().is_some_and(|(ca, since)| {
            Some(ca) == next && since.elapsed() >= rollover::ripening(self.args.certificate_life)
        });
        let now = Now {
            time,
            life: self.args.certificate_life,
            is_ripe,
            shown: self.shown.as_ref(),
            life_of: &|pair| Some(self.usable(pair)?.1),
            ca_holds: &|ca| pair::ca_holds(ca, time),
            make: &|| Pair::make(&self.names, time, self.args.certificate_life),
        };
        rollover::step(kept, &now)
    }

    /// What can be shown of `pair` now.
    fn usable(&self, pair: &Pair) -> Option<(CertifiedKey, Life)> {
        let checked = pair.check(&self.names, wall());
        checked.inspect_err(|why| warn!(why, "a certificate in the Secret is of no use")).ok()
    }

    /// Makes sure that the webhook configuration has all CAs; what it then has.
    async fn tell(&self, kept: &Kept) -> Result<Vec<u8>, Trouble> {
        let name = &self.args.configuration;
        let found = self.ask("get the MutatingWebhookConfiguration", name, self.configurations.get(name)).await?;
        let bundle = kept.bundle();
        let ours =
            |service: &ServiceReference| service.name == self.args.service && service.namespace == self.namespace;
        let webhooks = found.webhooks.iter().flatten();
        let webhooks: Vec<_> = webhooks.filter(|w| w.client_config.service.as_ref().is_some_and(ours)).collect();
        if webhooks.is_empty() {
            let (service, namespace) = (&self.args.service, &self.namespace);
            let what = format!(
                "no webhook in the MutatingWebhookConfiguration {name} calls the Service {service} in {namespace}"
            );
            return Err(Trouble::Failed(what));
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
        self.ask("patch the MutatingWebhookConfiguration", name, write).await?;
        info!(configuration = name, bytes = bundle.len(), "told the API server which CAs to trust");
        Ok(bundle)
    }

    async fn ask<T>(
        &self,
        what: &str,
        name: &str,
        question: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Trouble> {
        let failed = |why: &str| Trouble::Failed(format!("can't {what} {name}: {why}"));
        match tokio::time::timeout(self.args.request_timeout, question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(match status.code {
                409 => Trouble::Overtaken,
                404 => failed("there is none; apply manifests/injector (or the chart) again, which has an empty one"),
                _ => failed(&status.message),
            }),
            Ok(Err(error)) => Err(failed(&error_chain(&error))),
            Err(_) => Err(failed("no answer in time")),
        }
    }
}

fn kept(secret: &Secret) -> Kept {
    let get = |key| Some(secret.data.as_ref()?.get(key)?.0.clone());
    let pair = |[ca, cert, key]: [_; 3]| Some(Pair { ca: ca?, cert: cert?, key: key? });
    let [ca, cert, key, next_ca, next_cert, next_key, old_ca] = KEYS.map(get);
    Kept { current: pair([ca, cert, key]), next: pair([next_ca, next_cert, next_key]), old_ca }
}

/// `secret`, keeping `kept`; whatever else is in it stays.
fn with(mut secret: Secret, kept: &Kept) -> Secret {
    let data = secret.data.get_or_insert_default();
    let pair = |pair: &Option<Pair>| match pair.clone() {
        Some(Pair { ca, cert, key }) => [Some(ca), Some(cert), Some(key)],
        None => [None, None, None],
    };
    let values = [pair(&kept.current), pair(&kept.next)].into_iter().flatten().chain([kept.old_ca.clone()]);
    for (key, value) in KEYS.into_iter().zip(values) {
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
        let pair = |n: u8| Pair { ca: vec![n], cert: vec![n, 1], key: vec![n, 2] };
        let full = Kept { current: Some(pair(1)), next: Some(pair(2)), old_ca: Some(vec![3]) };
        let data = Some(BTreeMap::from([("other".to_owned(), ByteString(vec![9]))]));
        let secret = Secret { data, ..Secret::default() };
        let secret = with(secret, &full);
        assert_eq!(kept(&secret), full);
        assert_eq!(secret.data.as_ref().unwrap().len(), 8);
        let less = Kept { next: None, old_ca: None, ..full };
        let secret = with(secret, &less);
        assert_eq!(kept(&secret), less);
        assert_eq!(secret.data.unwrap().into_keys().collect::<Vec<_>>(), ["ca.crt", "other", "tls.crt", "tls.key"]);
        assert_eq!(kept(&Secret::default()), Kept::default());
    }
}

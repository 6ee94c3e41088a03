//! Whether Pods that are labelled for podgate's webhook find one in the cluster.

use crate::cluster::Cluster;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Api, ListParams};
use podgate::core::text::error_chain;
use podgate::order::declare::keys;
use podgate::order::edit::Place;
use podgate::order::finding::Finding;

/// The webhook's name within its configuration, as all of podgate's manifests have it.
const WEBHOOK_NAME: &str = "pods.podgate.io";

/// A finding if the cluster has no webhook of podgate's, or if that can't be told.
pub(super) async fn check_webhook(cluster: &Cluster) -> Result<Option<Finding>, String> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let asked = tokio::time::timeout(cluster.request_timeout, api.list(&ListParams::default())).await;
    let at = Place::root().to("metadata").to("labels").to(keys::INJECT);
    match asked.map_err(|_| cluster.timeout_message())? {
        Ok(list) if list.items.iter().any(is_podgate_webhook) => Ok(None),
        Ok(_) => {
            let what = "the cluster has no webhook of podgate's, for which this label asks: the Pod is made without podgate, and its \
                        containers start in no order";
            let fix = "install the webhook there (podgate's manifests/injector, or its Helm chart), or apply what kubectl podgate inject \
                        makes of this manifest";
            Ok(Some(Finding::warning("missing-webhook", at, what).fix(fix)))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let why = status.message;
            let what =
                format!("whether the cluster has podgate's webhook, for which this label asks, is not known: {why}");
            Ok(Some(Finding::note("missing-webhook", at, what)))
        }
        Err(error) => Err(format!("can't ask {}: {}", cluster.server, error_chain(&error))),
    }
}

/// The configuration's own name says nothing: who installs it may choose it. A label alone does not either, since one whose
/// webhooks were taken out calls nobody.
fn is_podgate_webhook(configuration: &MutatingWebhookConfiguration) -> bool {
    let label = |key: &str| configuration.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let is_labelled =
        label("app.kubernetes.io/name") == Some("podgate") && label("app.kubernetes.io/component") == Some("webhook");
    configuration.webhooks.iter().flatten().any(|webhook| is_labelled || webhook.name == WEBHOOK_NAME)
}

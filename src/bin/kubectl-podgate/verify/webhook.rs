//! Checks that podgate's webhook is in the cluster.

use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Api, ListParams};

/// Name of the webhook inside the MutatingWebhookConfiguration. All of podgate's manifests use this name.
const WEBHOOK_NAME: &str = "pods.podgate.io";

/// Returns the configuration of podgate's webhook.
pub(super) async fn find_webhook(cluster: &Cluster) -> Result<Option<MutatingWebhookConfiguration>, ClusterError> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let list = cluster.wait_for(api.list(&ListParams::default())).await?;
    Ok(list.items.into_iter().find(is_podgate_webhook))
}

/// Returns true for a configuration of podgate's webhook. The configuration's name is ignored, because users may choose
/// any name. A configuration without webhooks has no effect and does not count, even with podgate's labels.
fn is_podgate_webhook(configuration: &MutatingWebhookConfiguration) -> bool {
    let label = |key: &str| configuration.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let is_labeled =
        label("app.kubernetes.io/name") == Some("podgate") && label("app.kubernetes.io/component") == Some("webhook");
    configuration.webhooks.iter().flatten().any(|webhook| is_labeled || webhook.name == WEBHOOK_NAME)
}

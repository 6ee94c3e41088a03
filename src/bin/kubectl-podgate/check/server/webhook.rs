//! Checks that podgate's webhook is in the cluster. A Pod that declares an order needs the webhook if its manifest is
//! not injected.

use super::policy::{UNKNOWN_CONTAINERS, check_policy};
use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{Api, ListParams};
use podgate::order::edit::Place;
use podgate::order::finding::Finding;

/// Name of the webhook inside the MutatingWebhookConfiguration. All of podgate's manifests use this name.
const WEBHOOK_NAME: &str = "pods.podgate.io";

/// Returns true if the cluster has podgate's webhook. Also returns a finding if the webhook or its policy is missing,
/// or if the check is not possible.
pub(super) async fn check_webhook(cluster: &Cluster) -> Result<(bool, Option<Finding>), String> {
    let at = Place::root().to("metadata").to("annotations");
    match find_webhook(cluster).await {
        Ok(Some(_)) => {
            // Check the policy too, because the webhook itself does not deny Pods with unknown containers.
            let effect = "a Pod whose order names an unknown container starts in no order";
            let fix = "apply podgate's manifests/injector again, or upgrade its Helm chart";
            let finding = |what| Finding::warning("missing-policy", at.clone(), what).fix(fix);
            Ok((true, check_policy(cluster, UNKNOWN_CONTAINERS, effect, finding).await?))
        }
        Ok(None) => {
            let message = "the cluster does not have podgate's webhook: if you apply this manifest as it is, its containers start \
                           in no order";
            let fix = "apply the output of kubectl podgate inject, or install the webhook (podgate's manifests/injector, or its \
                       Helm chart)";
            Ok((false, Some(Finding::note("missing-webhook", at, message).fix(fix))))
        }
        Err(ClusterError::Rejected { code: 403, message, .. }) => {
            let message = format!("cannot check whether the cluster has podgate's webhook: {message}");
            Ok((false, Some(Finding::note("missing-webhook", at, message))))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the configuration of podgate's webhook.
pub(crate) async fn find_webhook(cluster: &Cluster) -> Result<Option<MutatingWebhookConfiguration>, ClusterError> {
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

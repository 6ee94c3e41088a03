//! Creates a template's Pod in a dry run, and checks the Pod that the API server returns. Nothing is created.

use super::super::analyze::CheckedTemplate;
use crate::cluster::Cluster;
use kube::api::PostParams;
use kube::core::Request;
use podgate::core::names::is_container_name;
use podgate::core::text::error_chain;
use podgate::order::edit::Place;
use podgate::order::finding::Finding;
use podgate::order::inject::{self, Options, without_nulls};
use podgate::order::lint;
use podgate::order::plan::KnownFacts;
use podgate::order::release;
use serde_json::{Value, json};

/// Returns findings about the Pod as all webhooks and policies of the cluster leave it. If `is_by_webhook` is true,
/// podgate's webhook injects the Pod; otherwise the tool does.
pub(super) async fn check_pod(
    cluster: &Cluster,
    checked: &CheckedTemplate<'_>,
    facts: &KnownFacts,
    is_by_webhook: bool,
) -> Result<Vec<Finding>, String> {
    let template = checked.template;
    let expected = match inject::inject(template, &Options::new(release::sidecar_image()), facts) {
        Ok(injected) if !checked.is_injected => injected.value,
        _ => template.clone(),
    };
    let namespace = checked.namespace.unwrap_or(&cluster.namespace);
    // Any other text could change the URL.
    if checked.outlook.is_none() || !inject::is_injected(&expected) || !is_container_name(namespace) {
        return Ok(Vec::new());
    }
    let sent = if is_by_webhook { template } else { &expected };
    let body = serde_json::to_vec(&as_pod(checked, sent)).map_err(|error| error_chain(&error))?;
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods")).create(&parameters, body);
    let request = request.map_err(|error| error_chain(&error))?;
    match cluster.with_timeout(cluster.client.request::<Value>(request)).await? {
        Ok(returned) => Ok(lint::check_returned(template, sent, &expected, &returned)),
        Err(kube::Error::Api(status)) if status.code != 401 => {
            Ok(vec![lint::check_refusal(status.code, &status.message)])
        }
        Err(error) => Err(format!("request to {} failed: {}", cluster.server, error_chain(&error))),
    }
}

/// Returns the Pod that a controller would create from the template `sent`.
fn as_pod(checked: &CheckedTemplate<'_>, sent: &Value) -> Value {
    let name = checked.name.rsplit('/').next().filter(|name| is_container_name(name)).unwrap_or("podgate-check");
    let metadata = &sent["metadata"];
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{name}-"),
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
        },
        "spec": sent["spec"],
    });
    // A StatefulSet's controller adds a volume for each claim.
    let parents = checked.place.0.split_last().map(|(_, parents)| Place(parents.to_vec()));
    let claims = parents.and_then(|place| place.of(&checked.document.value)?["volumeClaimTemplates"].as_array());
    let mut volumes = sent["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    for name in claims.into_iter().flatten().map(|claim| &claim["metadata"]["name"]) {
        volumes.retain(|volume| volume["name"] != *name);
        volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    pod["spec"]["volumes"] = volumes.into();
    without_nulls(&pod)
}

//! Sends a template's Pod to the API server as a dry run, and checks the Pod that the server returns.

use super::super::analyze::{CheckedTemplate, plan_and_outlook};
use super::policy::UNKNOWN_CONTAINERS;
use crate::cluster::{Cluster, ClusterError};
use crate::registry::images::ResolvedImages;
use podgate::core::names::is_container_name;
use podgate::order::edit::Place;
use podgate::order::finding::{Finding, Level};
use podgate::order::inject::{self, Options, Stripped, without_nulls};
use podgate::order::plan::KnownFacts;
use podgate::order::{lint, release};
use serde_json::{Value, json};

/// Returns findings about the Pod after all webhooks and policies of the cluster have changed it. If `is_by_webhook` is
/// true, podgate's webhook injects the Pod; otherwise this function injects the Pod. `unknown` contains the errors
/// about containers that are not in the manifest. These errors are dropped if the cluster adds the containers.
pub(super) async fn check_pod(
    cluster: &Cluster,
    checked: &mut CheckedTemplate<'_>,
    mut unknown: Vec<Finding>,
    images: &ResolvedImages,
    is_by_webhook: bool,
) -> Result<Vec<Finding>, String> {
    let template = checked.template;
    let images_of = |stripped: Stripped<'_>| images.for_template(template, stripped.plain()).commands;
    let known = KnownFacts {
        images: inject::strip(template).map(images_of).unwrap_or_default(),
        kubernetes: checked.context.kubernetes,
        ..KnownFacts::default()
    };
    let sent = match inject::inject(template, &Options::new(release::sidecar_image()), &known) {
        Ok(injected) if !is_by_webhook && !checked.is_injected => injected.value,
        _ => template.clone(),
    };
    let namespace = checked.namespace.unwrap_or(&cluster.namespace);
    let why_not = match (is_by_webhook || inject::is_injected(&sent), is_container_name(namespace)) {
        (false, _) => "check found no webhook of podgate in the cluster, and inject does not change this Pod",
        // An invalid namespace could change the URL of the request.
        (_, false) => "the name of its namespace is not valid",
        (true, true) => "",
    };
    if !why_not.is_empty() {
        unknown.push(skipped(why_not));
        return Ok(unknown);
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    match cluster.create(&path, true, &as_pod(checked, &sent)).await {
        Ok(returned) => {
            let again = inject::inject_again(&returned, &known);
            let mut found = lint::check_returned(template, &sent, &returned, &again, &known);
            // No plan is possible if the server returns an injected Pod without podgate's record of the injection.
            let has_plan = inject::is_injected(&returned) || !inject::is_injected(&sent);
            if has_plan && found.iter().all(|finding| finding.rule != "not-injected") {
                found.extend(check_order(checked, &returned, again, images));
            }
            Ok(found)
        }
        Err(ClusterError::Rejected { code, message, .. }) if code != 401 => {
            let refusal = lint::check_refusal(code, &message);
            let is_policy = message.contains(UNKNOWN_CONTAINERS);
            let text = format!("{message};");
            let is_named = |finding: &Finding| text.contains(&format!("{};", finding.message));
            unknown.retain(|finding| refusal.level == Level::Note || is_policy && is_named(finding));
            unknown.extend(Some(refusal).filter(|_| !is_policy || unknown.is_empty()));
            Ok(unknown)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the finding for a Pod that `check` does not create.
pub(super) fn skipped(why: &str) -> Finding {
    let what = format!("podgate did not create this Pod in a dry run: {why}");
    Finding::note("dry-run-skipped", Place::root().to("spec"), what)
}

/// Returns errors and warnings about the order in `returned`. Omits those that `check` found in the manifest.
fn check_order(
    checked: &mut CheckedTemplate<'_>,
    returned: &Value,
    again: Result<Option<Value>, Vec<Finding>>,
    images: &ResolvedImages,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let again = again.map_err(|errors| findings = errors);
    let last = again.ok().flatten().unwrap_or_else(|| returned.clone());
    if findings.is_empty() {
        let outlook = plan_and_outlook(&last, images, checked.context, &mut findings, &mut Default::default());
        if let (Some((plan, _)), Some((returned, _))) = (&mut checked.outlook, &outlook) {
            plan.publish = returned.publish;
        }
        checked.outlook = checked.outlook.take().or(outlook);
    }
    let is_new =
        |new: &Finding| !checked.findings.iter().any(|old| (old.rule, &old.message) == (new.rule, &new.message));
    let findings = findings.into_iter().filter(|finding| finding.level > Level::Note && is_new(finding));
    findings.map(|finding| lint::relocate_returned(finding, &last, checked.template)).collect()
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
    let claims = checked.context.workload.and_then(|workload| workload["volumeClaimTemplates"].as_array());
    let mut volumes = sent["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    for name in claims.into_iter().flatten().map(|claim| &claim["metadata"]["name"]) {
        volumes.retain(|volume| volume["name"] != *name);
        volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    pod["spec"]["volumes"] = volumes.into();
    without_nulls(&pod)
}

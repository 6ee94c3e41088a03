//! Finds the workloads whose Pods podgate denies.

use super::pods::text;
use crate::cluster::{Cluster, parse_pod_name};
use crate::error::CommandResult;
use kube::api::ListParams;
use podgate::core::text::{command_line, one_line};
use podgate::order::finding::{Finding, Level};
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns an error for each workload that lacks Pods because podgate has denied them. Reads events, because only a
/// ReplicaSet has a condition with the denial.
pub(super) async fn find_denied_pods(cluster: &Cluster) -> CommandResult<Vec<Finding>> {
    let mut denied = BTreeMap::<[String; 3], (String, String)>::new();
    let add = |event: &Value| {
        let (object, message) = (&event["involvedObject"], event["message"].as_str().unwrap_or_default());
        // The first text is that of the webhook, the second is that of the policy `podgate-unknown-containers`.
        let denials = ["\"pods.podgate.io\" denied the request: ", "denied request: podgate - "];
        let Some((_, denial)) = denials.into_iter().find_map(|start| message.split_once(start)) else { return };
        let workload = [&event["metadata"]["namespace"], &object["kind"], &object["name"]].map(text);
        let first = one_line(denial.lines().next().unwrap_or_default(), 500);
        let newest = denied.entry(workload).or_default();
        *newest = std::mem::take(newest).max((text(&event["lastTimestamp"]), first));
    };
    cluster.for_each("/api/v1/events", ListParams::default().fields("reason=FailedCreate"), add).await?;
    let mut findings = Vec::new();
    for ([namespace, kind, name], (_, denial)) in &denied {
        let workload = read(cluster, namespace, kind, name).await?;
        let Some(workload) = workload.filter(|workload| lacks_pods(workload, kind)) else { continue };
        let mut owners = workload["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.find(|owner| owner["kind"] == "Deployment" || owner["kind"] == "CronJob");
        let own = (kind.clone(), name.clone());
        let (kind, name) = owner.map_or(own, |owner| (text(&owner["kind"]), text(&owner["name"])));
        // After a correction, the Deployment keeps the old ReplicaSet until the new Pods are ready.
        if kind == "Deployment"
            && let Some(deployment) = read(cluster, namespace, &kind, &name).await?
            && template(&deployment) != template(&workload)
        {
            continue;
        }
        let shown = command_line(&[&format!("{kind}/{name}")]);
        let what = format!("podgate denies the Pods of {shown} in the namespace {namespace}: {denial}");
        let of = format!("{}/{name}", kind.to_lowercase());
        let get = command_line(&["kubectl", "get", &of, "-n", namespace, "-o", "yaml"]);
        let fix = format!("correct the Pod template; to see all problems, run: {get} | kubectl podgate check -");
        let found = super::finding(Level::Error, "pods-denied", what, fix);
        // The Jobs of a CronJob have the same finding.
        if !findings.contains(&found) {
            findings.push(found);
        }
    }
    Ok(findings)
}

/// Returns a workload; `None` if the workload does not exist, has another kind, or has an invalid name. A user who may
/// create events can write any kind and name.
async fn read(cluster: &Cluster, namespace: &str, kind: &str, name: &str) -> CommandResult<Option<Value>> {
    let group = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps",
        "Job" => "batch",
        _ => return Ok(None),
    };
    let mut found = None;
    if parse_pod_name(name).is_ok_and(|valid| valid == name) {
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/{}s", kind.to_lowercase());
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        cluster.for_each(&path, named, |workload| found = Some(workload.clone())).await?;
    }
    Ok(found)
}

/// Returns the parts of a workload's Pod template that its ReplicaSets copy unchanged.
fn template(workload: &Value) -> [&Value; 2] {
    let template = &workload["spec"]["template"];
    [&template["metadata"]["annotations"], &template["spec"]]
}

/// Returns true if the workload has fewer Pods than it needs. The events remain for an hour after the user has
/// corrected the order.
fn lacks_pods(workload: &Value, kind: &str) -> bool {
    let (spec, status) = (&workload["spec"], &workload["status"]);
    let (needed, existing) = match kind {
        "DaemonSet" => (&status["desiredNumberScheduled"], &status["currentNumberScheduled"]),
        "Job" => {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let has_ended = conditions.any(|it| it["type"] == "Complete" || it["type"] == "Failed");
            return !has_ended && status["active"].as_u64().unwrap_or_default() == 0;
        }
        _ => (&spec["replicas"], &status["replicas"]),
    };
    existing.as_u64().unwrap_or_default() < needed.as_u64().unwrap_or_default()
}

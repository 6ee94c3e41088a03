//! `status deployment/shop`: finds the Pods of a workload.

use crate::cluster::{Cluster, parse_pod_name};
use crate::error::{CommandResult, ErrorKind};
use crate::pod::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::Selector;
use podgate::core::text::command_line;
use serde::Deserialize;
use serde_json::Value;

/// Kinds of workloads: the names that kubectl accepts, and the path of their API.
const KINDS: [(&[&str], &str, &str); 5] = [
    (&["deployment", "deploy"], "apis/apps/v1", "deployments"),
    (&["statefulset", "sts"], "apis/apps/v1", "statefulsets"),
    (&["daemonset", "ds"], "apis/apps/v1", "daemonsets"),
    (&["replicaset", "rs"], "apis/apps/v1", "replicasets"),
    (&["job"], "apis/batch/v1", "jobs"),
];

/// Argument of `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Pod(String),
    Workload { api_path: &'static str, resource: &'static str, name: String },
}

/// Parses `NAME`, `pod/NAME` or `KIND/NAME`, as kubectl accepts them.
pub(crate) fn target(text: &str) -> Result<Target, &'static str> {
    let of_kind = text.split_once('/').and_then(|(kind, name)| {
        let (kind, _) = kind.split_once('.').unwrap_or((kind, ""));
        let (_, api_path, resource) =
            KINDS.into_iter().find(|(names, _, resource)| names.contains(&kind) || *resource == kind)?;
        Some((api_path, resource, name))
    });
    let Some((api_path, resource, name)) = of_kind else { return parse_pod_name(text).map(Target::Pod) };
    Ok(Target::Workload { api_path, resource, name: parse_pod_name(name)? })
}

/// Returns the Pods of a workload. If there are none, fails with the reason that the cluster gives.
pub(super) async fn require_pods(cluster: &Cluster, path: &str, resource: &str, name: &str) -> CommandResult<Vec<Pod>> {
    let namespace = &cluster.namespace;
    let what = format!("{resource}/{name}");
    let found = cluster.get(&format!("/{path}/namespaces/{namespace}/{what}")).await;
    let workload = found.map_err(|error| match error.kind {
        ErrorKind::Rejected(404, _) => {
            format!("no {what} in namespace {namespace:?}; pass another namespace with -n").into()
        }
        _ => error,
    })?;
    let selector = LabelSelector::deserialize(&workload["spec"]["selector"]).unwrap_or_default();
    let selector = Selector::try_from(selector).map_err(|error| format!("{what} has an invalid selector: {error}"))?;
    let mut pods = Vec::new();
    let mut add = |pod: &Value| pods.extend(Pod::deserialize(pod).ok());
    let list = format!("/api/v1/namespaces/{namespace}/pods");
    cluster.for_each(&list, ListParams::default().labels_from(&selector), &mut add).await?;
    if !pods.is_empty() {
        return Ok(pods);
    }
    let conditions = workload["status"]["conditions"].as_array().into_iter().flatten();
    let failed = conditions.filter(|it| it["type"] == "ReplicaFailure").find_map(|it| it["message"].as_str());
    let uid = workload["metadata"]["uid"].as_str().unwrap_or_default();
    let events =
        format!("/api/v1/namespaces/{namespace}/events?fieldSelector=type%3DWarning%2CinvolvedObject.uid%3D{uid}");
    let events = if failed.is_none() { cluster.get(&events).await.unwrap_or_default() } else { Value::Null };
    let events = events["items"].as_array().into_iter().flatten();
    let last = events.max_by_key(|event| event["lastTimestamp"].as_str()).and_then(|event| event["message"].as_str());
    let why = match failed.or(last) {
        Some(why) => format!(": {why}"),
        None if workload["spec"]["replicas"] == 0 => ": it is scaled to 0".to_owned(),
        None => format!(" yet; see {}", command_line(&["kubectl", "-n", namespace, "describe", &what])),
    };
    Err(format!("{what} has no Pods{why}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_named_as_in_kubectl() {
        for text in ["deploy/shop", "deployments/shop", "deployment.apps/shop"] {
            let Ok(Target::Workload { resource, name, .. }) = target(text) else { panic!("{text}") };
            assert_eq!((resource, name.as_str()), ("deployments", "shop"));
        }
        for pod in ["shop-0", "pod/shop-0"] {
            assert_eq!(target(pod), Ok(Target::Pod("shop-0".to_owned())));
        }
        assert!(target("service/shop").is_err() && target("deploy/").is_err() && target("deploy/a/b").is_err());
    }
}

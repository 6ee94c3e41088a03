//! Checks that a Pod's service account has the permissions that podgate's sidecar needs, and no more.

use crate::cluster::{Cluster, ClusterError};
use podgate::core::text::command_line;
use podgate::order::finding::{Finding, Level};
use serde_json::json;
use std::collections::BTreeSet;

/// Verbs that the sidecar uses on its own Pod.
const VERBS: [&str; 2] = ["watch", "patch"];

/// Returns those of [`VERBS`] that the service account has no permission to use on Pods.
pub(super) async fn missing_verbs(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
) -> Result<Vec<&'static str>, ClusterError> {
    let path = format!("/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let mut missing = Vec::new();
    for verb in VERBS {
        let attributes = json!({"namespace": namespace, "verb": verb, "resource": "pods", "version": "v1"});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": namespace},
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        });
        if cluster.create(&path, false, &review).await?["status"]["allowed"] != true {
            missing.push(verb);
        }
    }
    Ok(missing)
}

/// Returns a finding if the service account lacks RBAC verbs that the sidecar needs (`missing`). The finding is an error
/// if the sidecar then cannot see the conditions `needs_role` of a plan.
pub(super) fn lacks_verbs(
    namespace: &str,
    account: &str,
    missing: &[&str],
    needs_role: &BTreeSet<String>,
) -> Option<Finding> {
    let lacks =
        format!("the service account {account} in {namespace} lacks permissions for Pods ({})", missing.join(", "));
    let install = command_line(&["kubectl", "podgate", "install", "--namespaces", namespace]);
    let bind = format!("bind podgate's role to the account: {install} (add the other namespaces of your installation)");
    if missing.contains(&"watch") && !needs_role.is_empty() {
        let what = format!(
            "{lacks}, so podgate never sees {}",
            Vec::from_iter(needs_role.iter().map(String::as_str)).join(", ")
        );
        return Some(super::finding(Level::Error, "missing-rbac", what, bind));
    }
    let what = format!("{lacks}: held containers start up to 90 s late, and states are not published");
    let fix = format!("{bind}; or set podgate.io/publish: none");
    (!missing.is_empty()).then(|| super::finding(Level::Warning, "missing-rbac", what, fix))
}

//! Checks that a Pod's service account has the permissions that podgate's sidecar needs, and no more.

use super::policy::{OWN_POD, check_policy};
use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::api::authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use podgate::order::edit::Place;
use podgate::order::finding::Finding;

/// Verbs that the sidecar uses on its own Pod.
const VERBS: [&str; 2] = ["watch", "patch"];
/// Verb that the sidecar does not need. The policy does not limit an account that has it.
const WIDER_VERB: &str = "update";

/// Returns findings if the service account lacks a permission, if no policy limits its permissions, or if this cannot be
/// checked.
pub(super) async fn check_rights(cluster: &Cluster, namespace: &str, account: &str) -> Result<Vec<Finding>, String> {
    let at = Place::root().to("spec").to("serviceAccountName");
    let unknown = |why: &str| {
        let message = format!(
            "cannot check whether the service account {account} in {namespace} has the permissions of podgate's sidecar: {why}"
        );
        Ok(vec![Finding::note("missing-rbac", at.clone(), message)])
    };
    let api: Api<LocalSubjectAccessReview> = Api::namespaced(cluster.client.clone(), namespace);
    let mut missing = Vec::new();
    for verb in VERBS.into_iter().chain([WIDER_VERB]) {
        let review = LocalSubjectAccessReview {
            metadata: kube::core::ObjectMeta { namespace: Some(namespace.to_owned()), ..Default::default() },
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{account}")),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_owned()),
                    verb: Some(verb.to_owned()),
                    resource: Some("pods".to_owned()),
                    version: Some("v1".to_owned()),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        match cluster.wait_for(api.create(&PostParams::default(), &review)).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(verb),
            Err(ClusterError::Rejected { code: 403, message, .. }) => return unknown(&message),
            Err(ClusterError::Rejected { code: 404, .. }) => {
                return unknown(&format!("there is no namespace {namespace}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut findings = Vec::new();
    if missing.ends_with(&[WIDER_VERB]) && !missing.contains(&"patch") {
        let effect = format!("the service account {account} in {namespace} may change every Pod of the namespace");
        let fix = "apply podgate's manifests/policy.yaml, or upgrade its Helm chart";
        let finding = |what| Finding::error("missing-policy", at.clone(), what).fix(fix);
        findings.extend(check_policy(cluster, OWN_POD, &effect, finding).await?);
    }
    missing.retain(|verb| *verb != WIDER_VERB);
    if !missing.is_empty() {
        let message = format!(
            "the service account {account} in {namespace} may not {} pods: held containers start up to 90 s late, and states are \
             not published",
            missing.join(", ")
        );
        let fix = "bind podgate's role to the account (manifests/rolebinding.yaml), or set podgate.io/publish: board";
        findings.push(Finding::warning("missing-rbac", at, message).fix(fix));
    }
    Ok(findings)
}

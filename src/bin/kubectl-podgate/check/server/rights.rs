//! Whether a Pod's service account may do what podgate's sidecar does.

use crate::cluster::Cluster;
use k8s_openapi::api::authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use podgate::core::text::error_chain;
use podgate::order::edit::Place;
use podgate::order::finding::Finding;

/// What the sidecar does with its own Pod.
const VERBS: [&str; 3] = ["get", "watch", "patch"];

/// What is missing for a service account, or why that can't be told.
pub(super) enum Right {
    All,
    Missing(Vec<&'static str>),
    Unknown(String),
}

impl Right {
    pub(super) fn finding(&self, namespace: &str, account: &str) -> Option<Finding> {
        let at = Place::root().to("spec").to("serviceAccountName");
        match self {
            Right::All => None,
            Right::Missing(verbs) => {
                let what = format!(
                    "the service account {account} in {namespace} may not {} pods: the order holds, but states are not published, a \
                     deletion during the start is noticed late, and what only the kubelet knows is not known",
                    verbs.join(", ")
                );
                let mend = "apply podgate's rbac.yaml with a RoleBinding for this namespace, or write podgate.io/publish: board";
                Some(Finding::warning("missing-rbac", at, what).mend(mend))
            }
            Right::Unknown(why) => {
                let what = format!(
                    "whether the service account {account} in {namespace} has the rights of podgate's sidecar is not known: {why}"
                );
                Some(Finding::note("missing-rbac", at, what))
            }
        }
    }
}

pub(super) async fn ask(cluster: &Cluster, namespace: &str, account: &str) -> Result<Right, String> {
    let api: Api<LocalSubjectAccessReview> = Api::namespaced(cluster.client.clone(), namespace);
    let mut missing = Vec::new();
    for verb in VERBS {
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
        let asked = tokio::time::timeout(cluster.limit, api.create(&PostParams::default(), &review)).await;
        match asked.map_err(|_| cluster.late())? {
            Ok(answer) => {
                if !answer.status.is_some_and(|status| status.allowed) {
                    missing.push(verb);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Right::Unknown(status.message)),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Ok(Right::Unknown(format!("there is no namespace {namespace}")));
            }
            Err(error) => return Err(format!("can't ask {}: {}", cluster.server, error_chain(&error))),
        }
    }
    Ok(if missing.is_empty() { Right::All } else { Right::Missing(missing) })
}

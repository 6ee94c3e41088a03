//! What the cluster is asked: its version, and whether the Pods' service accounts may do what podgate's sidecar needs.

use super::args::Check;
use super::locate::locate;
use super::look::{self, Looked};
use crate::api::{Cluster, chain};
use crate::inject::Found;
use crate::manifest::Source;
use crate::manifest::files::Input;
use k8s_openapi::api::authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use podgate::core::checks::Version;
use podgate::core::edit::Place;
use podgate::core::finding::Finding;
use podgate::core::plan::Publish;
use std::collections::BTreeMap;

/// What the sidecar does with its own Pod.
const VERBS: [&str; 3] = ["get", "watch", "patch"];

/// What is missing for a service account, or why that can't be told.
enum Right {
    All,
    Missing(Vec<&'static str>),
    Unknown(String),
}

/// Looks at all templates with the cluster's version, and asks for the rights of their service accounts.
pub(super) async fn ask(args: &Check, sources: &[(Input, Source)], images: &Found) -> Result<Looked, String> {
    let cluster = Cluster::of(&args.connection).await?;
    let info = tokio::time::timeout(cluster.limit, cluster.client.apiserver_version()).await;
    let info = info
        .map_err(|_| cluster.late())?
        .map_err(|error| format!("can't ask {}: {}", cluster.server, chain(&error)))?;
    let version: Result<Version, String> = format!("{}.{}", info.major, info.minor).parse();
    let version = version.map_err(|error| format!("{}: {error}", cluster.server))?;
    let mut looked = look::all(sources, images, Some(args.kubernetes.unwrap_or(version)));
    let mut known: BTreeMap<(String, String), Right> = BTreeMap::new();
    let mut findings = Vec::new();
    for template in &looked.templates {
        let Some(outlook) = &template.outlook else { continue };
        if outlook.plan.publish == Publish::Board {
            continue;
        }
        let namespace = template.namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
        let key = (namespace, template.service_account.clone());
        if !known.contains_key(&key) {
            let right = right(&cluster, &key.0, &key.1).await?;
            known.insert(key.clone(), right);
        }
        let at = Place::root().to("spec").to("serviceAccountName");
        let (namespace, account) = &key;
        let finding = match &known[&key] {
            Right::All => continue,
            Right::Missing(verbs) => Finding::warning(
                "missing-rbac",
                at,
                format!(
                    "the service account {account} in {namespace} may not {} pods: the order holds, but states are not published, a \
                     deletion during the start is noticed late, and what only the kubelet knows is not known",
                    verbs.join(", ")
                ),
            )
            .mend("apply podgate's rbac.yaml with a RoleBinding for this namespace, or write podgate.io/publish: board"),
            Right::Unknown(why) => {
                let what = format!("whether the service account {account} in {namespace} has the rights of podgate's sidecar is not known: {why}");
                Finding::note("missing-rbac", at, what)
            }
        };
        findings.push((template.file.clone(), template.place.clone(), template.at, finding));
    }
    for (file, place, at, finding) in findings {
        let source = sources.iter().map(|(_, source)| source).filter(|source| source.name == file);
        let documents = source.flat_map(|source| &source.documents);
        let fits = |document: &&crate::manifest::Document| {
            place.of(&document.value).is_some()
                && look::beginning(document, &look::object(&document.value, &place)) == at
        };
        if let Some(document) = documents.into_iter().find(fits) {
            looked.findings.push(locate(finding, &place, document, &file));
        }
    }
    looked.sort();
    Ok(looked)
}

async fn right(cluster: &Cluster, namespace: &str, account: &str) -> Result<Right, String> {
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
            Err(error) => return Err(format!("can't ask {}: {}", cluster.server, chain(&error))),
        }
    }
    Ok(if missing.is_empty() { Right::All } else { Right::Missing(missing) })
}

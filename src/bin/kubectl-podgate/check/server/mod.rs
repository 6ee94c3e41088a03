//! `check --server`: checks manifests against a cluster.

mod dry_run;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod webhook;

use super::analyze::{self, Analysis, CheckedTemplate};
use super::args::Check;
use crate::cluster::Cluster;
use crate::registry::images::ResolvedImages;
use crate::yaml::Source;
use podgate::order::declare::Publish;
use podgate::order::finding::Finding;
use podgate::order::lint::Version;
use rbac::Rights;
use std::collections::BTreeMap;

/// Analyzes all templates for the cluster's version. Adds findings about a missing webhook and missing permissions.
pub(super) async fn analyze_with_cluster<'a>(
    args: &Check,
    sources: &'a [Source],
    images: &ResolvedImages,
) -> Result<Analysis<'a>, String> {
    let cluster = Cluster::from_args(&args.connection).await?;
    let info = cluster.wait_for(cluster.client.apiserver_version()).await?;
    let version = format!("{}.{}", info.major, info.minor).parse::<Version>();
    let version = version.map_err(|error| format!("{}: {error}", cluster.server))?;
    let kubernetes = Some(args.kubernetes.unwrap_or(version));
    let mut analysis = analyze::analyze_all(sources, images, kubernetes);
    let mut known = ClusterAnswers { cluster, webhook: None, rights: BTreeMap::new() };
    for template in &mut analysis.templates {
        let unknown = template.take_unknown_containers();
        if template.outlook.is_none() && unknown.is_empty() {
            template.findings.push(dry_run::skipped("its order has errors"));
            continue;
        }
        if !template.is_injected {
            if known.webhook.is_none() {
                known.webhook = Some(webhook::check_webhook(&known.cluster).await?);
            }
            template.findings.extend(known.webhook.iter().filter_map(|(_, finding)| finding.clone()));
        }
        // If the cluster has podgate's webhook, the webhook injects the Pod without the commands in `images`.
        let is_by_webhook = !template.is_injected && matches!(known.webhook, Some((true, _)));
        let images = if is_by_webhook { &ResolvedImages::default() } else { images };
        let found = dry_run::check_pod(&known.cluster, template, unknown, images, is_by_webhook).await?;
        template.findings.extend(found);
        known.check_rights(template).await?;
    }
    Ok(analysis.finish())
}

/// Cache of the cluster's answers. Each query is sent once, and only if a template needs the answer.
struct ClusterAnswers {
    cluster: Cluster,
    /// True if the cluster has podgate's webhook, and a finding about the webhook, if any.
    webhook: Option<(bool, Option<Finding>)>,
    /// Permissions by namespace and service account.
    rights: BTreeMap<(String, String), Rights>,
}

impl ClusterAnswers {
    /// Adds findings about missing permissions. Removes warnings about permissions that are present.
    async fn check_rights(&mut self, template: &mut CheckedTemplate<'_>) -> Result<(), String> {
        let Some((plan, _)) = template.outlook.as_ref().filter(|(plan, _)| plan.publish == Publish::Api) else {
            return Ok(());
        };
        let namespace = template.namespace.unwrap_or(&self.cluster.namespace);
        let key = (namespace.to_owned(), template.service_account.to_owned());
        if !self.rights.contains_key(&key) {
            let rights = rbac::check_rights(&self.cluster, &key.0, &key.1).await?;
            self.rights.insert(key.clone(), rights);
        }
        let (missing, findings) = &self.rights[&key];
        template.findings.extend(findings.iter().cloned());
        if let Some(missing) = missing {
            template.findings.retain(|finding| finding.rule != "known-by-kubelet");
            template.findings.extend(rbac::lacks_verbs(&key.0, &key.1, missing, &plan.needs_role));
        }
        Ok(())
    }
}

//! What the cluster is asked: its version, whether labelled Pods find podgate's webhook there, and whether the Pods' service
//! accounts may do what its sidecar needs.

mod rights;
mod webhook;

use super::args::Check;
use super::locate::locate;
use super::look::{self, Looked, Template};
use crate::cluster::Cluster;
use crate::registry::images::Found;
use crate::yaml::Source;
use crate::yaml::files::Input;
use podgate::core::text::error_chain;
use podgate::order::finding::Finding;
use podgate::order::lint::Version;
use podgate::order::plan::Publish;
use rights::Right;
use std::collections::BTreeMap;
use webhook::Webhook;

/// Looks at all templates with the cluster's version, and asks for what they need there.
pub(super) async fn ask(args: &Check, sources: &[(Input, Source)], images: &Found) -> Result<Looked, String> {
    let cluster = Cluster::of(&args.connection).await?;
    let info = tokio::time::timeout(cluster.limit, cluster.client.apiserver_version()).await;
    let info = info
        .map_err(|_| cluster.late())?
        .map_err(|error| format!("can't ask {}: {}", cluster.server, error_chain(&error)))?;
    let version: Result<Version, String> = format!("{}.{}", info.major, info.minor).parse();
    let version = version.map_err(|error| format!("{}: {error}", cluster.server))?;
    let mut looked = look::all(sources, images, Some(args.kubernetes.unwrap_or(version)));
    let mut known = Known { cluster, webhook: None, rights: BTreeMap::new() };
    let mut findings = Vec::new();
    for template in &looked.templates {
        for finding in known.findings(template).await? {
            findings.push((template.file.clone(), template.place.clone(), template.at, finding));
        }
    }
    for (file, place, at, finding) in findings {
        let source = sources.iter().map(|(_, source)| source).filter(|source| source.name == file);
        let documents = source.flat_map(|source| &source.documents);
        let fits = |document: &&crate::yaml::Document| {
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

/// What has been asked already: each thing once, and only if a template needs it.
struct Known {
    cluster: Cluster,
    webhook: Option<Webhook>,
    rights: BTreeMap<(String, String), Right>,
}

impl Known {
    async fn findings(&mut self, template: &Template) -> Result<Vec<Finding>, String> {
        let Some(outlook) = &template.outlook else { return Ok(Vec::new()) };
        let mut findings = Vec::new();
        if template.needs_webhook {
            let webhook = match self.webhook.take() {
                Some(webhook) => webhook,
                None => webhook::ask(&self.cluster).await?,
            };
            findings.extend(self.webhook.insert(webhook).finding());
        }
        if outlook.plan.publish == Publish::Api {
            let namespace = template.namespace.clone().unwrap_or_else(|| self.cluster.namespace.clone());
            let key = (namespace, template.service_account.clone());
            if !self.rights.contains_key(&key) {
                let right = rights::ask(&self.cluster, &key.0, &key.1).await?;
                self.rights.insert(key.clone(), right);
            }
            findings.extend(self.rights[&key].finding(&key.0, &key.1));
        }
        Ok(findings)
    }
}

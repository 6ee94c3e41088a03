//! Checks of the Pods that run in the cluster.

use crate::cluster::{Cluster, ClusterError};
use kube::api::ListParams;
use kube::core::Request;
use podgate::order::declare::spec::{SIDECAR_NAME, find_container};
use podgate::order::declare::{is_declared, keys};
use podgate::order::inject::inject_label;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Facts about podgate in all Pods that have not ended and are not being deleted.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pub(super) ready_webhooks: usize,
    /// Namespaces and service accounts of the sidecars that publish states.
    pub(super) accounts: BTreeSet<(String, String)>,
    /// Number of Pods without their sidecar, by their workload and the instruction that creates them again.
    pub(super) unordered: BTreeMap<(String, String), usize>,
    /// Number of Pods by their program, `podgate` or `podgate-webhook`, and the tag of its image.
    pub(super) versions: BTreeMap<(&'static str, String), usize>,
}

pub(super) async fn read(cluster: &Cluster) -> Result<Pods, ClusterError> {
    let mut pods = Pods::default();
    let mut parameters = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed").limit(500);
    loop {
        let request = Request::new("/api/v1/pods").list(&parameters);
        let send = async { cluster.client.request(request.map_err(kube::Error::BuildRequest)?).await };
        let page: Value = cluster.wait_for(send).await?;
        page["items"].as_array().into_iter().flatten().for_each(|pod| pods.add(pod));
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => parameters.continue_token = Some(token.to_owned()),
            _ => return Ok(pods),
        }
    }
}

impl Pods {
    fn add(&mut self, pod: &Value) {
        let metadata = &pod["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            return;
        }
        let labels = ["name", "component"].map(|key| &metadata["labels"][format!("app.kubernetes.io/{key}")]);
        if labels == ["podgate", "webhook"] {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            self.add_version("podgate-webhook", &pod["spec"]["containers"][0]);
            self.ready_webhooks += usize::from(conditions.any(|it| it["type"] == "Ready" && it["status"] == "True"));
        }
        if !is_declared(pod) || inject_label(pod) == Some("disabled") {
            return;
        }
        let Some((_, sidecar)) = find_container(pod, SIDECAR_NAME) else {
            *self.unordered.entry(workload(metadata)).or_default() += 1;
            return;
        };
        self.add_version("podgate", sidecar);
        if metadata["annotations"][keys::PUBLISH] != "board" {
            self.accounts.insert((text(&metadata["namespace"]), text(&pod["spec"]["serviceAccountName"])));
        }
    }

    /// Counts the tag of the container's image, unless the image is given by digest only.
    fn add_version(&mut self, program: &'static str, container: &Value) {
        let image = container["image"].as_str().unwrap_or_default().split('@').next().unwrap_or_default();
        if let Some((_, tag)) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
            *self.versions.entry((program, tag.to_owned())).or_default() += 1;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the workload of a Pod, and the instruction that creates the workload's Pods again.
fn workload(metadata: &Value) -> (String, String) {
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true);
    let (kind, name) = owner.map_or(("Pod".to_owned(), &metadata["name"]), |it| (text(&it["kind"]), &it["name"]));
    let (name, namespace) = (text(name), text(&metadata["namespace"]));
    let hash = metadata["labels"]["pod-template-hash"].as_str().filter(|_| kind == "ReplicaSet");
    let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    let (kind, name) = deployment.map_or((kind.as_str(), name.as_str()), |name| ("Deployment", name));
    let fix = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            format!("kubectl rollout restart {}/{name} -n {namespace}", kind.to_lowercase())
        }
        _ => "delete these Pods, and create those without a controller again".to_owned(),
    };
    (format!("{kind}/{name} in the namespace {namespace}"), fix)
}

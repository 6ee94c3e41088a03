//! Checks of the Pods that run in the cluster.

use crate::cluster::Cluster;
use crate::error::CommandResult;
use crate::registry::images::images_to_resolve;
use kube::api::ListParams;
use podgate::core::text::command_line;
use podgate::order::assigned::{AssignedOrders, first_error};
use podgate::order::declare::keys::INJECT_LABEL;
use podgate::order::declare::spec::{SIDECAR_NAME, find_container, items_of};
use podgate::order::declare::{Publish, is_declared};
use podgate::order::image_map::{ImageMap, find_by_name_or_digest, truncate_digest};
use podgate::order::inject::{Options, inject, inject_label, is_injected, is_injected_without_sidecar};
use podgate::order::plan::{KnownFacts, Plan};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Facts about podgate in all Pods that have not ended and are not being deleted.
#[derive(Debug, Default)]
pub(super) struct PodSurvey {
    pub(super) ready_webhooks: usize,
    /// Namespaces and service accounts of the sidecars that use the API, with the conditions that need podgate's role.
    pub(super) accounts: BTreeMap<(String, String), BTreeSet<String>>,
    /// Number of Pods with an order without a sidecar.
    pub(super) lean: usize,
    /// Number of Pods without their sidecar, by workload and by the instruction that creates its Pods again.
    pub(super) unordered: BTreeMap<(String, String), usize>,
    /// Number of Pods with an image whose entry in the webhook's file is missing or outdated, by rule, message and the
    /// instruction that creates the Pods again.
    pub(super) images: BTreeMap<(&'static str, String, String), usize>,
    /// Number of Pods without their order of `--orders`, by rule, message and fix.
    pub(super) assigned: BTreeMap<(&'static str, String, String), usize>,
    /// Names of the orders of `--orders` that a Pod has, or lacks.
    pub(super) used: BTreeSet<String>,
}

/// Reads the Pods. `file` has the commands that the webhook knows; `None` skips the checks of images. `orders` are those
/// that the webhook assigns.
pub(super) async fn read(
    cluster: &Cluster,
    file: Option<&ImageMap>,
    orders: &AssignedOrders,
) -> CommandResult<PodSurvey> {
    let mut labels = BTreeMap::new();
    let add = |it: &Value| {
        let (name, value) = (&it["metadata"]["name"], &it["metadata"]["labels"][INJECT_LABEL]);
        labels.insert(text(name), text(value));
    };
    cluster.for_each("/api/v1/namespaces", ListParams::default().labels(INJECT_LABEL), add).await?;
    let mut pods = PodSurvey::default();
    let fields = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let add = |pod: &Value| {
        let label = pod["metadata"]["namespace"].as_str().and_then(|name| labels.get(name)).map(String::as_str);
        pods.add(pod, label == Some("disabled"), file);
        pods.add_assigned(pod, label, orders);
    };
    cluster.for_each("/api/v1/pods", fields, add).await?;
    Ok(pods)
}

impl PodSurvey {
    /// Adds the facts about a Pod. `is_skipped` is true if the webhook skips its namespace.
    fn add(&mut self, pod: &Value, is_skipped: bool, file: Option<&ImageMap>) {
        let metadata = &pod["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            return;
        }
        let labels = ["name", "component"].map(|key| &metadata["labels"][format!("app.kubernetes.io/{key}")]);
        if labels == ["podgate", "webhook"] {
            let mut conditions = items_of(&pod["status"], "conditions");
            self.ready_webhooks += usize::from(conditions.any(|it| it["type"] == "Ready" && it["status"] == "True"));
        }
        if !is_declared(pod) || inject_label(pod) == Some("disabled") {
            return;
        }
        // Require the sidecar too, because a manifest can contain a copy of the injection's record.
        if find_container(pod, SIDECAR_NAME).is_some() {
            let plan = inject(pod, &Options::new("podgate"), &KnownFacts::default()).ok().and_then(|pod| pod.plan);
            file.into_iter().for_each(|file| self.add_images(pod, file, plan.as_ref()));
            if plan.as_ref().is_none_or(|plan| plan.publish == Publish::Api) {
                let account = (text(&metadata["namespace"]), text(&pod["spec"]["serviceAccountName"]));
                let needs = plan.into_iter().flat_map(|plan| plan.unprovable_conditions);
                let of = workload(metadata).0;
                self.accounts.entry(account).or_default().extend(needs.map(|need| format!("{need} of {of}")));
            }
            return;
        }
        if is_injected_without_sidecar(pod) {
            self.lean += 1;
            file.into_iter().for_each(|file| self.add_images(pod, file, None));
            return;
        }
        // An order that Kubernetes keeps by itself needs no sidecar.
        let injected = inject(pod, &Options::new("podgate"), &KnownFacts::default());
        let is_unneeded = injected.is_ok_and(|pod| !is_injected(&pod.value));
        if !is_unneeded && !is_skipped {
            *self.unordered.entry(workload(metadata)).or_default() += 1;
        }
    }

    /// Adds the order of `--orders` for a Pod that declares none. `label` is podgate's label of the namespace.
    fn add_assigned(&mut self, pod: &Value, label: Option<&str>, orders: &AssignedOrders) {
        let namespace = text(&pod["metadata"]["namespace"]);
        self.used.extend(orders.find_assigned(&namespace, pod).map(|order| order.name.clone()));
        let is_skipped = label == Some("disabled") || !pod["metadata"]["deletionTimestamp"].is_null();
        let Some(order) = orders.order_to_assign(&namespace, pod).filter(|_| !is_skipped) else { return };
        self.used.insert(order.name.clone());
        let injected = order.inject(pod, |pod| inject(pod, &Options::new("podgate"), &KnownFacts::default()));
        let (workload, again) = workload(&pod["metadata"]);
        let order = &order.name;
        let (rule, what, fix) = match injected {
            Ok(injected) if injected.edits.is_empty() => return,
            Err(findings) => {
                let what = format!("the webhook's {order} does not fit {workload}: {}", first_error(&findings));
                ("order-does-not-fit", what, format!("correct the ConfigMap podgate-orders; then: {again}"))
            }
            Ok(_) => {
                let set = command_line(&["kubectl", "label", "namespace", &namespace, "podgate.io/inject=enabled"]);
                let fix = if label == Some("enabled") { again } else { format!("{set}; then: {again}") };
                let what = format!("the Pods of {workload} started without the webhook's {order}");
                ("order-not-assigned", what, fix)
            }
        };
        *self.assigned.entry((rule, what, fix)).or_default() += 1;
    }

    /// Adds the images of an injected Pod for which the webhook's `file` has no entry or an outdated one.
    fn add_images(&mut self, pod: &Value, file: &ImageMap, plan: Option<&Plan>) {
        let (workload, again) = workload(&pod["metadata"]);
        for (name, image) in images_to_resolve(pod) {
            let is_held = plan.is_some_and(|plan| plan.is_held(&name));
            let (entry, runs) = (find_by_name_or_digest(file, &image), running_digest(pod, &name));
            let moved = entry.zip(runs).filter(|(entry, runs)| !entry.digest.is_empty() && entry.digest != *runs);
            let (rule, what) = if let Some((entry, runs)) = moved {
                let [runs, known] = [runs, &entry.digest].map(truncate_digest);
                let what = format!("the image {image} has moved: {workload} runs {runs}, the webhook knows {known}");
                ("image-moved", what)
            } else if entry.is_none() && is_held {
                let what = format!("the webhook does not know the command of {image}, so {name} is held: {workload}");
                ("image-not-known", what)
            } else {
                continue;
            };
            *self.images.entry((rule, what, again.clone())).or_default() += 1;
        }
    }
}

/// Returns the digest of the image that a container runs. `None` for CRI-O, which may report that of one platform
/// instead of that of the tag.
fn running_digest<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let status = items_of(&pod["status"], "containerStatuses").find(|status| status["name"] == container)?;
    let is_from_tag = !status["containerID"].as_str()?.starts_with("cri-o:");
    status["imageID"].as_str()?.rsplit_once('@').map(|(_, digest)| digest).filter(|_| is_from_tag)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the workload of a Pod, and the instruction that creates the workload's Pods again.
fn workload(metadata: &Value) -> (String, String) {
    let owner = items_of(metadata, "ownerReferences").find(|owner| owner["controller"] == true);
    let (kind, name) = owner.map_or(("Pod".to_owned(), &metadata["name"]), |it| (text(&it["kind"]), &it["name"]));
    let (name, namespace) = (text(name), text(&metadata["namespace"]));
    let hash = metadata["labels"]["pod-template-hash"].as_str().filter(|_| kind == "ReplicaSet");
    let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    let (kind, name) = deployment.map_or((kind.as_str(), name.as_str()), |name| ("Deployment", name));
    let fix = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            let workload = format!("{}/{name}", kind.to_lowercase());
            command_line(&["kubectl", "rollout", "restart", &workload, "-n", &namespace])
        }
        _ => "delete these Pods; if a Pod has no controller, create it again".to_owned(),
    };
    // The owner's name is any text, so quote it in the message too.
    (format!("{} in the namespace {namespace}", command_line(&[&format!("{kind}/{name}")])), fix)
}

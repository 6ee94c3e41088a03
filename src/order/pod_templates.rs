//! Finds the Pod templates in a document of any kind.

use crate::order::edit::{PathSegment, Place};
use serde_json::Value;

/// Maximum depth of nested lists. Prevents deep recursion on malicious documents.
const MAX_LIST_DEPTH: usize = 4;

/// Returns the place of the Pod template in an object of one of Kubernetes' own kinds.
pub(crate) fn builtin_template_place(kind: &str) -> Option<Place> {
    Some(to_place(match kind {
        "Pod" => "",
        "PodTemplate" => "template",
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => "spec.template",
        "CronJob" => "spec.jobTemplate.spec.template",
        _ => return None,
    }))
}

/// Paths of the Pod template in objects of other kinds. Argo's Rollout, Knative's Service and most of OpenKruise's
/// kinds use the paths of Kubernetes' own kinds. Operators often use `podTemplate`. KEDA uses `jobTargetRef`.
/// The last paths are those of OpenKruise's AdvancedCronJob and UnitedDeployment.
const COMMON_PATHS: &str = "spec.template template spec.podTemplate spec.jobTemplate.spec.template \
    spec.jobTargetRef.template spec.template.jobTemplate.spec.template \
    spec.template.broadcastJobTemplate.spec.template spec.template.deploymentTemplate.spec.template \
    spec.template.statefulSetTemplate.spec.template spec.template.advancedStatefulSetTemplate.spec.template \
    spec.template.cloneSetTemplate.spec.template";

fn to_place(path: &str) -> Place {
    Place(path.split('.').filter(|key| !key.is_empty()).map(PathSegment::from).collect())
}

/// Pod or Pod template in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Place of the template in the document.
    pub place: Place,
    /// Place of the object with the template: the document or an item of a list. For a Pod, the Pod itself.
    pub object: Place,
}

impl Template {
    /// Returns the object around the template, such as the `spec` of a Deployment or Job. `None` for a bare Pod.
    pub fn workload_spec<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        let mut parent = self.place.clone();
        parent.0.pop().filter(|_| self.place != self.object)?;
        parent.of(document)
    }

    /// Returns `Kind/name` of the object with the template, for messages.
    pub fn name(&self, document: &Value) -> String {
        let object = self.object.of(document).unwrap_or(&Value::Null);
        let metadata = &object["metadata"];
        match (text_field(object, "kind"), text_field(metadata, "name"), text_field(metadata, "generateName")) {
            ("", ..) => String::new(),
            (kind, "", "") => format!("{kind}/(no name)"),
            (kind, "", name) | (kind, name, _) => format!("{kind}/{name}"),
        }
    }
}

/// Returns the Pod templates of `document` in order. A template is an object whose `spec.containers` is a list. For a
/// `List`, returns the templates of all items.
pub fn templates(document: &Value) -> Vec<Template> {
    let mut found = Vec::new();
    collect_templates(document, Place::root(), MAX_LIST_DEPTH, &mut found);
    found
}

fn collect_templates(document: &Value, at: Place, lists: usize, found: &mut Vec<Template>) {
    let kind = text_field(document, "kind");
    if kind.ends_with("List")
        && let Some(items) = document.get("items").and_then(Value::as_array)
    {
        for (index, item) in items.iter().enumerate().filter(|_| lists > 0) {
            collect_templates(item, at.to("items").to(index), lists - 1, found);
        }
        return;
    }
    // A kind of another API group, such as Volcano's Job, may have the same name but other paths.
    let builtin = builtin_template_place(kind).filter(|_| is_builtin_group(document));
    let places = builtin.map_or_else(|| COMMON_PATHS.split(' ').map(to_place).collect(), |place| vec![place]);
    let places = places.iter().filter(|place| place.of(document).is_some_and(is_template));
    found.extend(places.map(|place| Template { place: at.join(place), object: at.clone() }));
}

fn text_field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns true for Kubernetes' own API groups: the empty core group, groups without a dot (`apps`), and `*.k8s.io`.
pub(crate) fn is_builtin_group(document: &Value) -> bool {
    let version = text_field(document, "apiVersion");
    version.split_once('/').is_none_or(|(group, _)| !group.contains('.') || group.ends_with(".k8s.io"))
}

fn is_template(value: &Value) -> bool {
    value["spec"]["containers"].is_array()
}

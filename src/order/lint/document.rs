//! Reports podgate's annotations and labels in places that podgate does not read, and objects that an operator owns.

use crate::order::declare::{check_key, is_declared, is_or_resembles_podgate_key, keys};
use crate::order::edit::{PathSegment, Place};
use crate::order::finding::Finding;
use crate::order::inject::is_injected;
use crate::order::pod_templates::{Template, builtin_template_place, is_builtin_group};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Checks the owners of `document`, and all its annotations and labels except those on its Pod templates. `templates`
/// must contain all Pod templates of the document. The findings' places start at the document's root.
pub fn check_document(document: &Value, templates: &[Template]) -> Vec<Finding> {
    let mut walk = Walk {
        document,
        read: templates.iter().map(|template| template.place.to("metadata").0).collect(),
        owners: templates.iter().rev().map(|template| (template.object.0.as_slice(), &template.place)).collect(),
        findings: Vec::new(),
    };
    walk.visit(document, &mut Vec::new());
    walk.findings.extend(templates.iter().filter_map(|template| check_owner(document, template)));
    walk.findings.sort_by(|a, b| a.at.cmp(&b.at));
    walk.findings
}

/// Reports an object with an order if an operator controls the object, and so can undo the order. Omits injected Pods.
fn check_owner(document: &Value, template: &Template) -> Option<Finding> {
    let at = template.object.to("metadata").to("ownerReferences");
    // Kubernetes' own controllers copy the order from their template.
    let is_operator = |owner: &Value| owner["controller"] == true && !is_builtin_group(owner);
    let (number, owner) = at.items(document).iter().enumerate().find(|(_, owner)| is_operator(owner))?;
    let pod = template.place.of(document)?;
    (is_declared(pod) && (template.place != template.object || !is_injected(pod))).then_some(())?;
    let [kind, name] = ["kind", "name"].map(|field| owner[field].as_str().unwrap_or_default());
    let what = format!("{kind} {name} controls this object, and can undo the order");
    let fix = format!("declare the order in {kind} {name}, in the field for the annotations of its Pods");
    Some(Finding::warning("operator-owns", at.to(number), what).fix(fix))
}

/// Returns a warning about a key in a file from which a tool renders the manifest, such as a kustomization.
fn not_rendered(key: &str, at: Place) -> Finding {
    let what = format!("podgate does not read {key} here, because it finds no Pod template with containers");
    let fix = "render the manifest first, for example with kubectl kustomize or helm template";
    Finding::warning("place-not-read", at, what).fix(fix)
}

struct Walk<'a> {
    document: &'a Value,
    /// Paths of the templates' metadata, which podgate reads.
    read: BTreeSet<Vec<PathSegment>>,
    /// Places of the objects with templates, each with the place of its first template.
    owners: BTreeMap<&'a [PathSegment], &'a Place>,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Value, path: &mut Vec<PathSegment>) {
        match value {
            // A ControllerRevision has a copy of the template.
            Value::Object(fields) if value["kind"] != "ControllerRevision" => {
                self.check_fields(fields, path);
                for (key, field) in fields {
                    path.push(key.as_str().into());
                    if let ("annotations" | "labels", Value::Object(map)) = (key.as_str(), field)
                        && !self.read.contains(&path[..path.len() - 1])
                    {
                        let keys = map.keys().filter(|key| is_or_resembles_podgate_key(key));
                        let found: Vec<Finding> = keys.filter_map(|name| self.check(name, key, path)).collect();
                        self.findings.extend(found);
                    }
                    self.visit(field, path);
                    path.pop();
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(index.into());
                    self.visit(item, path);
                    path.pop();
                }
            }
            // A JSON patch, as a file or in a kustomization, names the key in a JSON pointer.
            Value::String(text)
                if text.contains(&keys::ORDER.replace('/', "~1"))
                    || path.first() == Some(&"patches".into()) && text.contains(keys::ORDER) =>
            {
                self.findings.push(not_rendered(keys::ORDER, Place(path.clone())));
            }
            _ => {}
        }
    }

    /// Reports an annotation that is a field of the metadata, of a spec or of the document. Usually the user has
    /// indented the key like `annotations:`.
    fn check_fields(&mut self, fields: &serde_json::Map<String, Value>, path: &[PathSegment]) {
        let name = path.last().map(|segment| if let PathSegment::Key(key) = segment { &**key } else { "" });
        for key in fields.keys().filter(|key| keys::is_manifest_annotation(key)) {
            if matches!(name, None | Some("metadata" | "spec" | "template")) {
                let what = format!("{key} has no effect here, because it is a field and not an annotation");
                let fix = format!("put {key} below annotations:, indented deeper than that line");
                self.findings.push(Finding::error("misplaced", Place(path.to_vec()).to(key.as_str()), what).fix(fix));
            } else if !matches!(name, Some("annotations" | "labels")) {
                // Examples are `commonAnnotations` of a kustomization and `podAnnotations` of a Helm chart.
                self.findings.push(not_rendered(key, Place(path.to_vec()).to(key.as_str())));
            }
        }
    }

    fn check(&self, key: &str, field: &str, path: &[PathSegment]) -> Option<Finding> {
        let at = Place(path.to_vec()).to(key);
        let is_inject = key == keys::INJECT_LABEL && field == "labels";
        if !is_inject && !keys::is_manifest_annotation(key) {
            return check_key(key, field, at);
        }
        let (object, kind) = self.object_around(path);
        let is_builtin = object.is_some_and(|(_, object)| is_builtin_group(object));
        let is_own_metadata = object.is_some_and(|(length, _)| path.len() == length + 2);
        let misplaced = |fix: String| {
            let what = format!("{key} has no effect here, because podgate reads it from Pods and Pod templates only");
            Some(Finding::error("misplaced", at.clone(), what).fix(fix))
        };
        let owner = (0..path.len()).rev().find_map(|length| self.owners.get(&path[..length]));
        if let Some(template) = owner.filter(|_| is_builtin || is_own_metadata) {
            let right = template.to("metadata").to(if is_inject { "labels" } else { "annotations" });
            // Accept the key if the template has it too, because podgate then reads it from the template.
            let is_harmless = right.to(key).of(self.document).is_some();
            return if is_harmless { None } else { misplaced(format!("move it to {right}")) };
        }
        if is_inject {
            return None;
        }
        let template = object.filter(|_| is_builtin).zip(builtin_template_place(kind));
        let is_template = template.is_some_and(|((length, _), own)| own.to("metadata").to(field).0 == path[length..]);
        if is_builtin && !is_template {
            return misplaced("move it to the Pod, or to the Pod template of a workload".to_owned());
        }
        if field == "labels" {
            return check_key(key, field, at);
        }
        if !is_builtin && object.is_some() {
            // With this label, the user confirms that the operator copies the key into its Pods.
            let label = Place(path[..path.len() - 1].to_vec()).to("labels").to(keys::INJECT_LABEL);
            let what = format!("podgate does not read {key} here, because the Pod templates of {kind} are unknown");
            let fix = "if the operator copies annotations into its Pods, install podgate's webhook, and add the label \
                       podgate.io/inject: enabled beside the key to silence this warning";
            let is_labeled = label.of(self.document).is_some_and(|value| value == "enabled");
            return (!is_labeled).then(|| Finding::warning("place-not-read", at, what).fix(fix));
        }
        Some(not_rendered(key, at))
    }

    /// Finds the innermost object around `path` that has a `kind`. Returns the length of its path, the object, and its
    /// kind; `(None, "")` if there is none.
    fn object_around(&self, path: &[PathSegment]) -> (Option<(usize, &Value)>, &str) {
        let found = (0..path.len()).rev().find_map(|length| {
            let object = Place(path[..length].to_vec()).of(self.document)?;
            Some(((length, object), object.get("kind")?.as_str()?))
        });
        found.map_or((None, ""), |(object, kind)| (Some(object), kind))
    }
}

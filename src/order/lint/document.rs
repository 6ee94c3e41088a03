//! Reports annotations and labels that have no effect in their place.

use crate::order::declare::{is_declared, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::pod_templates::Template;
use serde_json::Value;

/// Reports podgate's annotations and labels on an object instead of the object's Pod template. Podgate ignores such
/// keys. The findings' places start at the document's root.
#[must_use]
pub fn misplaced_keys(document: &Value, template: &Template) -> Vec<Finding> {
    let Template { object, place: template } = template;
    if object == template {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let metadata = object.to("metadata");
    let template_metadata = template.to("metadata");
    for (field, word) in [("annotations", "annotation"), ("labels", "label")] {
        let place = metadata.to(field);
        let Some(Value::Object(map)) = place.of(document) else { continue };
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort();
        for key in keys {
            let is_ours = keys::POD_KEYS.contains(&key.as_str())
                || keys::CONTAINER_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || key == keys::INJECT;
            // A key that is also on the template does no harm.
            if is_ours && template_metadata.to(field).to(key.as_str()).of(document).is_none() {
                let what = format!("the {word} {key} has no effect here; podgate reads it from the Pod template only");
                let finding = Finding::error("misplaced", place.to(key.as_str()), what);
                findings.push(finding.fix(format!("move it to {}", template_metadata.to(field))));
            }
        }
    }
    findings
}

/// Reports a template that has the label `podgate.io/inject: enabled` but declares no order.
#[must_use]
pub(super) fn nothing_declared(template: &Value) -> Option<Finding> {
    let label = Place::root().to("metadata").to("labels").to(keys::INJECT);
    let is_marked = label.of(template).and_then(Value::as_str) == Some("enabled");
    let what = "the label podgate.io/inject has no effect here, because the template declares no order";
    (is_marked && !is_declared(template)).then(|| {
        Finding::warning("nothing-declared", label, what)
            .fix("add the annotation podgate.io/order, or remove the label")
    })
}

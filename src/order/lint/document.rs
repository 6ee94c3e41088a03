//! Annotations at a place where nobody reads them.

use crate::order::declare::{is_declared, keys};
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::pod_templates::Template;
use serde_json::Value;

/// Annotations of podgate's on an object that holds a template, and not on the template: they say nothing there. The findings' places
/// are counted from the document's root.
#[must_use]
pub fn misplaced_keys(document: &Value, template: &Template) -> Vec<Finding> {
    let Template { object, place: template } = template;
    if object == template {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let metadata = object.to("metadata");
    let there = template.to("metadata");
    for (field, word) in [("annotations", "annotation"), ("labels", "label")] {
        let place = metadata.to(field);
        let Some(Value::Object(map)) = place.of(document) else { continue };
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort();
        for key in keys {
            let is_ours = keys::POD_KEYS.contains(&key.as_str())
                || keys::CONTAINER_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || key == keys::INJECT;
            // The same on the template is what counts, and a copy of it does no harm.
            if is_ours && there.to(field).to(key.as_str()).of(document).is_none() {
                let what = format!("the {word} {key} says nothing here: it counts on the Pod's template alone");
                let finding = Finding::error("misplaced", place.to(key.as_str()), what);
                findings.push(finding.fix(format!("move it to {}", there.to(field))));
            }
        }
    }
    findings
}

/// A template that is marked for the webhook and declares nothing.
#[must_use]
pub(super) fn nothing_declared(template: &Value) -> Option<Finding> {
    let label = Place::root().to("metadata").to("labels").to(keys::INJECT);
    let is_marked = label.of(template).and_then(Value::as_str) == Some("enabled");
    let what = "the template is marked for podgate, and declares no order: nothing is done";
    (is_marked && !is_declared(template)).then(|| {
        Finding::warning("nothing-declared", label, what)
            .fix("annotate it with podgate.io/order, or take the label out")
    })
}

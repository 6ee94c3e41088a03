//! Findings for a template that declares no order.

use super::key_check::concerns_podgate;
use super::keys::{self, annotation_place, is_declared};
use super::reader::read_annotations;
use super::spec::Spec;
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use crate::order::limits;
use serde_json::Value;

/// Checks the keys and settings of a template that declares no order.
pub fn check_undeclared(template: &Value) -> Vec<Finding> {
    let maps = ["annotations", "labels"].map(Place::metadata);
    let mut keys = maps.iter().filter_map(|at| at.of(template)?.as_object()).flat_map(serde_json::Map::keys);
    let mut findings = Vec::new();
    if keys.any(|key| concerns_podgate(key)) {
        if let Err(finding) = limits::check(template, false) {
            return finding.into();
        }
        let spec = Spec::read(template, &mut Vec::new());
        let _ = read_annotations(template, &spec, &mut findings);
        if !has_errors(&findings) {
            findings.extend(nothing_declared(template));
        }
    }
    findings
}

/// Returns a warning if the template has podgate's label or settings, but declares no order.
pub(crate) fn nothing_declared(template: &Value) -> Option<Finding> {
    if is_declared(template) {
        return None;
    }
    let (metadata, fix) = (Place::root().to("metadata"), "add the annotation podgate.io/order, or remove");
    let label = metadata.to("labels").to(keys::INJECT);
    if label.of(template).and_then(Value::as_str) == Some("enabled") {
        let what = "the label podgate.io/inject has no effect, because the template declares no order";
        return Some(Finding::warning("nothing-declared", label, what).fix(format!("{fix} the label")));
    }
    let annotations = metadata.to("annotations").of(template)?.as_object()?;
    let key = annotations.keys().filter(|key| keys::is_annotation(key) && *key != keys::INJECTED).min()?;
    let what = format!("{key} has no effect, because the template declares no order");
    Some(Finding::warning("nothing-declared", annotation_place(key), what).fix(format!("{fix} {key}")))
}

//! Checks the keys of annotations and labels, but not the values.

use super::grammar::quoted;
use super::keys::{self, annotation_place, is_declared};
use super::nearest::nearest;
use super::reader::read_annotations;
use super::spec::Spec;
use crate::core::names;
use crate::order::edit::Place;
use crate::order::finding::{Finding, has_errors};
use serde_json::Value;

/// Prefixes of the annotations that the webhook, the sidecar or a user writes on a Pod.
const WRITTEN_PREFIXES: [&str; 4] =
    [names::STATUS_PREFIX, names::SANDBOX_PREFIX, names::OVERRIDE_PREFIX, keys::UNKNOWN_CONTAINERS];

/// Returns true if the domain of `key` is one of podgate's domains, or similar to one.
pub(crate) fn concerns_podgate(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, _)| is_own(domain) || similar_domain(domain).is_some())
}

fn is_own(domain: &str) -> bool {
    domain == keys::DOMAIN || domain.strip_suffix(keys::DOMAIN).is_some_and(|sub| sub.ends_with('.'))
}

/// Returns the domain of podgate that the user probably meant by `domain`.
fn similar_domain(domain: &str) -> Option<&'static str> {
    // Skip the many domains without a similar part, because computing the similarity is expensive.
    let is_candidate = ["pod", "gate"].iter().any(|part| domain.to_lowercase().contains(part));
    if is_candidate { nearest(domain, domains()) } else { None }
}

fn domains() -> impl Iterator<Item = &'static str> {
    let of_one = keys::CONTAINER_PREFIXES.into_iter().map(|prefix| prefix.trim_end_matches('/'));
    of_one.chain([keys::DOMAIN])
}

/// Returns a finding if no program reads `key` in `field`, which is `annotations` or `labels` of a template. Returns
/// `None` for the keys of other tools.
pub(crate) fn check_key(key: &str, field: &str, at: Place) -> Option<Finding> {
    let (domain, name) = key.split_once('/')?;
    let is_label = field == "labels";
    if keys::is_annotation(key) {
        let what = format!("{key} is an annotation and has no effect as a label");
        return is_label.then(|| Finding::error("not-a-label", at, what).fix("move it to metadata.annotations"));
    }
    if key == keys::INJECT {
        let what = format!("{key} is a label and has no effect as an annotation");
        return (!is_label).then(|| Finding::error("not-an-annotation", at, what).fix("move it to metadata.labels"));
    }
    if WRITTEN_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
        let what = format!("podgate ignores {key} in a manifest, because this key is for running Pods only");
        return Some(Finding::warning("copied-state", at, what).fix("remove it"));
    }
    if !is_own(domain) {
        let near = similar_domain(domain)?;
        let what = format!("podgate ignores {}, because the domain is not one of podgate's", quoted(key));
        return Some(Finding::warning("unknown-key", at, what).fix(format!("did you mean {near}/{name}?")));
    }
    let meant = match domain {
        keys::DOMAIN => {
            let label = is_label.then_some(keys::INJECT);
            nearest(key, keys::POD_KEYS.into_iter().chain(label)).map(str::to_owned)
        }
        _ => nearest(domain, domains()).map(|near| format!("{near}/{name}")),
    };
    // Keys such as `podgate.io/after` and `podgate.io/command` lack the container name.
    let of_one =
        keys::CONTAINER_PREFIXES.iter().find(|prefix| domain == keys::DOMAIN && prefix.split('.').next() == Some(name));
    let fix = match (of_one, meant) {
        (Some(prefix), _) => format!("write {prefix}CONTAINER"),
        (None, Some(meant)) => format!("did you mean {meant}?"),
        (None, None) => "use one of the keys in docs/declaring.md".to_owned(),
    };
    let what = format!("podgate does not know the {} {}", if is_label { "label" } else { "annotation" }, quoted(key));
    Some(Finding::error("unknown-key", at, what).fix(fix))
}

/// Checks the keys and settings of a template that declares no order.
pub fn check_undeclared(template: &Value) -> Vec<Finding> {
    let maps = ["annotations", "labels"].map(|field| Place::root().to("metadata").to(field));
    let mut keys = maps.iter().filter_map(|at| at.of(template)?.as_object()).flat_map(serde_json::Map::keys);
    let mut findings = Vec::new();
    if keys.any(|key| concerns_podgate(key)) {
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

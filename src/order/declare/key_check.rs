//! Checks the keys of annotations and labels, but not the values.

use super::grammar::quoted;
use super::keys;
use super::nearest::{did_you_mean, nearest};
use crate::core::names;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::release;

/// Prefixes of the annotations that the sidecar, the webhook or a user writes on a Pod.
const POD_PREFIXES: [&str; 4] =
    [names::STATUS_KEY_PREFIX, names::SANDBOX_KEY_PREFIX, names::OVERRIDE_KEY_PREFIX, keys::UNKNOWN_CONTAINER_FINDINGS];

/// Returns true if the annotation `key` describes one Pod, so that it is wrong on any other Pod.
pub(crate) fn describes_one_pod(key: &str) -> bool {
    POD_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if the domain of `key` is one of podgate's domains or resembles one: it contains `podgate`, in any case
/// and with any punctuation, or differs from one of podgate's domains in one character.
pub(crate) fn is_or_resembles_podgate_key(key: &str) -> bool {
    let Some((domain, _)) = key.rsplit_once('/') else { return squeeze(key).contains("podgateio") };
    // Compare the lengths first, because it takes long to compute the distance of long words.
    let is_similar = |known: &str| domain.len().abs_diff(known.len()) <= 1 && strsim::osa_distance(domain, known) <= 1;
    squeeze(domain).contains("podgate") || container_domains().chain([keys::DOMAIN]).any(is_similar)
}

/// Returns the letters and digits of `text` in lower case. Omits the words `gateway` and `gatekeeper`, so that
/// `pod-gateway` does not contain `podgate`.
fn squeeze(text: &str) -> String {
    let letters = text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
    letters.collect::<String>().replace("gateway", "").replace("gatekeeper", "")
}

fn container_domains() -> impl Iterator<Item = &'static str> {
    keys::CONTAINER_PREFIXES.into_iter().map(|prefix| prefix.trim_end_matches('/'))
}

/// Returns a finding if no program of podgate reads `key` in `field`, which is `annotations` or `labels` of a template.
/// Returns `None` for the keys of other tools.
pub(crate) fn check_key(key: &str, field: &str, at: Place) -> Option<Finding> {
    let is_label = field == "labels";
    if keys::is_manifest_annotation(key) {
        let what = format!("{key} is an annotation and has no effect as a label");
        return is_label.then(|| Finding::error("not-a-label", at, what).fix("move it to metadata.annotations"));
    }
    if key == keys::INJECT_LABEL {
        let what = format!("{key} is a label and has no effect as an annotation");
        return (!is_label).then(|| Finding::error("not-an-annotation", at, what).fix("move it to metadata.labels"));
    }
    if describes_one_pod(key) {
        let what = format!("podgate ignores {key} in a manifest, because this key describes a running Pod");
        return Some(Finding::warning("copied-state", at, what).fix(format!("remove this {}", kind(is_label))));
    }
    if !is_or_resembles_podgate_key(key) {
        return None;
    }
    let what = format!("unknown {} {}", kind(is_label), quoted(key));
    Some(Finding::error("unknown-key", at, what).fix(suggestion(key, is_label)))
}

fn kind(is_label: bool) -> &'static str {
    if is_label { "label" } else { "annotation" }
}

/// Returns the fix for an unknown key: the key that the user probably meant.
fn suggestion(key: &str, is_label: bool) -> String {
    // The container's name is at the wrong place: `podgate.io/mode.api`, `podgate.io/mode/api`.
    let own = key.strip_prefix(keys::DOMAIN).and_then(|rest| rest.trim_start_matches('/').split_once(['.', '/']));
    let of_one = |word: &str| keys::CONTAINER_PREFIXES.iter().find(|prefix| prefix.split('.').next() == Some(word));
    if let Some((prefix, container)) = own.and_then(|(word, container)| Some((of_one(word)?, container))) {
        return format!("did you mean {prefix}{container}?");
    }
    let (domain, name) = key.rsplit_once('/').unwrap_or(("", key));
    if let Some(near) = nearest(domain, container_domains()) {
        return format!("did you mean {near}/{name}?");
    }
    let known = keys::POD_KEYS.into_iter().chain(is_label.then_some(keys::INJECT_LABEL));
    let near = did_you_mean(&format!("{}/{name}", keys::DOMAIN), known);
    // A key such as `podgate.io/after` lacks the container's name.
    let fix = near.or_else(|| Some(format!("write {}CONTAINER", of_one(name)?)));
    fix.unwrap_or_else(|| format!("use one of the keys in {}", release::page_url("declaring")))
}

//! Checks the keys of annotations and labels, but not the values.

use super::grammar::quoted;
use super::keys;
use super::nearest::nearest;
use crate::core::names;
use crate::order::edit::Place;
use crate::order::finding::Finding;

/// Prefixes of the annotations that the sidecar, the webhook or a user writes on a Pod.
const POD_PREFIXES: [&str; 4] =
    [names::STATUS_PREFIX, names::SANDBOX_PREFIX, names::OVERRIDE_PREFIX, keys::UNKNOWN_CONTAINERS];
/// Maximum length of a key in Kubernetes, in bytes: 253 for the domain, 63 for the name.
const KEY_MAX: usize = 253 + 1 + 63;

/// Returns true if the annotation `key` describes one Pod, so that it is wrong on any other Pod.
pub(crate) fn describes_one_pod(key: &str) -> bool {
    POD_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns true if the domain of `key` is one of podgate's domains, or if `key` resembles a key of podgate.
pub(crate) fn concerns_podgate(key: &str) -> bool {
    let is_own = |domain: &str| {
        domain == keys::DOMAIN || domain.strip_suffix(keys::DOMAIN).is_some_and(|sub| sub.ends_with('.'))
    };
    key.split_once('/').is_some_and(|(domain, _)| is_own(domain)) || is_near_miss(key)
}

/// Returns true if `key` is not podgate's, but the user probably meant a key of podgate:
///
/// - The domain contains `podgate`, in any case and with any punctuation: `podgate/order`, `Pod-Gate.com/order`.
/// - The domain differs in one character from one of podgate's, or from `podgate` with another ending:
///   `pogate.io/order`, `podgat.com/order`, `pogate/order`.
/// - The key has no domain and contains `podgate.io`: `podgate.io.order`.
/// - The key, or its part after the domain, consists of `podgate` and the name of a key. Each may have one wrong
///   character: `podgate-order`, `order/podgate.io`, `order.pogate.io`, `example.com/podgate-ordr`.
///
/// Takes time linear in the length of `key`, because the webhook compares each key of a Pod.
fn is_near_miss(key: &str) -> bool {
    if key.len() > KEY_MAX {
        return false;
    }
    let of_pod = pod_keys().filter_map(|known| known.split_once('/')).map(|(_, name)| name);
    let of_container = keys::CONTAINER_PREFIXES.into_iter().filter_map(|prefix| prefix.split('.').next());
    let names: Vec<String> = of_pod.chain(of_container).map(squeeze).collect();
    let is_name = |text: &str| {
        let near = |found: String| names.iter().any(|name| is_similar(&found, name));
        name_beside_podgate(text).is_some_and(near)
    };
    match key.rsplit_once('/') {
        Some((domain, name)) => {
            let is_near = || container_domains().chain([keys::DOMAIN]).any(|known| is_similar(domain, known));
            let first =
                domain.split_once('.').map_or(domain, |(first, ending)| if ending.contains('.') { "" } else { first });
            squeeze(domain).contains("podgate") || is_near() || is_misspelled(first) || is_name(key) || is_name(name)
        }
        None => squeeze(key).contains("podgateio") || is_name(key),
    }
}

/// Returns true if the words differ in at most one character.
fn is_similar(a: &str, b: &str) -> bool {
    // Compare the lengths first, because it takes long to compute the distance of long words.
    a.len().abs_diff(b.len()) <= 1 && strsim::osa_distance(a, b) <= 1
}

/// Returns true if `word` is `podgate` with at most one wrong character.
fn is_misspelled(word: &str) -> bool {
    is_similar(&squeeze(word), "podgate")
}

/// Returns the letters and digits of `text` in lower case. Omits the words `gateway` and `gatekeeper`, so that
/// `pod-gateway` does not contain `podgate`.
fn squeeze(text: &str) -> String {
    let letters = text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
    letters.collect::<String>().replace("gateway", "").replace("gatekeeper", "")
}

/// Returns the letters of `key` without the word `podgate` or `podgateio`. A misspelled `podgate` counts too if it is a
/// separate word. Returns `None` if `key` contains no such word.
fn name_beside_podgate(key: &str) -> Option<String> {
    let letters = squeeze(key);
    if let Some((before, after)) = letters.split_once("podgateio").or_else(|| letters.split_once("podgate")) {
        return Some(format!("{before}{after}"));
    }
    let mut words: Vec<&str> = key.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let at = words.iter().position(|word| is_misspelled(word))?;
    words.remove(at);
    words.retain(|word| *word != "io");
    Some(squeeze(&words.concat()))
}

/// Returns the keys of the annotations for the whole Pod, and then the key of the label.
fn pod_keys() -> impl Iterator<Item = &'static str> {
    keys::POD_KEYS.into_iter().chain([keys::INJECT])
}

fn container_domains() -> impl Iterator<Item = &'static str> {
    keys::CONTAINER_PREFIXES.into_iter().map(|prefix| prefix.trim_end_matches('/'))
}

/// Returns a finding if no program of podgate reads `key` in `field`, which is `annotations` or `labels` of a template.
/// Returns `None` for the keys of other tools.
pub(crate) fn check_key(key: &str, field: &str, at: Place) -> Option<Finding> {
    let is_label = field == "labels";
    if keys::is_annotation(key) {
        let what = format!("{key} is an annotation and has no effect as a label");
        return is_label.then(|| Finding::error("not-a-label", at, what).fix("move it to metadata.annotations"));
    }
    if key == keys::INJECT {
        let what = format!("{key} is a label and has no effect as an annotation");
        return (!is_label).then(|| Finding::error("not-an-annotation", at, what).fix("move it to metadata.labels"));
    }
    if describes_one_pod(key) {
        let what = format!("podgate ignores {key} in a manifest, because this key describes a running Pod");
        return Some(Finding::warning("copied-state", at, what).fix(format!("remove this {}", kind(is_label))));
    }
    if !concerns_podgate(key) {
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
    let (domain, name) = key.rsplit_once('/').unwrap_or(("", key));
    let of_one = |word: &str| keys::CONTAINER_PREFIXES.iter().find(|prefix| prefix.split('.').next() == Some(word));
    // The container's name is at the wrong place: `podgate.io/mode.api`, `podgate.io/mode/api`.
    let own = key.strip_prefix(keys::DOMAIN).and_then(|rest| rest.trim_start_matches('/').split_once(['.', '/']));
    if let Some((prefix, container)) = own.and_then(|(word, container)| Some((of_one(word)?, container))) {
        return format!("did you mean {prefix}{container}?");
    }
    let first = domain.split('.').next().unwrap_or_default().to_lowercase();
    let of_container = of_one(&first).map(|prefix| prefix.trim_end_matches('/'));
    if let Some(near) = of_container.or_else(|| nearest(domain, container_domains())) {
        return format!("did you mean {near}/{name}?");
    }
    let known = || pod_keys().filter(|known| is_label || *known != keys::INJECT);
    let nearest_to = |name: &str| nearest(&format!("{}/{name}", keys::DOMAIN), known());
    let fix = |name: &str| match (nearest_to(name), of_one(name)) {
        (Some(meant), _) => Some(format!("did you mean {meant}?")),
        // Keys such as `podgate.io/after` and `podgate.io/command` lack the container name.
        (None, Some(prefix)) => Some(format!("write {prefix}CONTAINER")),
        (None, None) => None,
    };
    let beside = || [key, name].into_iter().find_map(|text| fix(&name_beside_podgate(text)?));
    fix(name).or_else(beside).unwrap_or_else(|| "use one of the keys in docs/declaring.md".to_owned())
}

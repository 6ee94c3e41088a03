//! Finds lists that YAML cut at a comma. In `{podgate.io/order: db, api}`, YAML reads `db` as the value of the order,
//! and `api` as a second key without a value.

use super::grammar::{self, parse_list, quoted};
use super::keys::{self, annotation_place};
use super::spec::Spec;
use crate::core::argv::Check;
use crate::order::finding::Finding;
use serde_json::{Map, Value};

/// Returns the key of the annotation that YAML cut, and the finding.
pub(super) fn find_cut<'a>(annotations: &'a Map<String, Value>, spec: &Spec<'_>) -> Option<(&'a str, Finding)> {
    let parts = annotations.iter().enumerate().filter(|(_, (key, value))| is_part(key, value, spec));
    let parts: Vec<(usize, &str, &Value)> = parts.map(|(at, (key, value))| (at, key.as_str(), value)).collect();
    let first = parts.first()?.0;
    // A cut value has no comma. The other parts of the list follow the value, unless the API server sorted the keys.
    let are_checks = parts[0].1.parse::<Check>().is_ok();
    let is_list = |key: &str| keys::declares_order(key) && key.starts_with(keys::CHECK_PREFIX) == are_checks;
    let is_cut = |key: &str, value: &Value| is_list(key) && value.as_str().is_some_and(|text| !text.contains(','));
    let lists = || annotations.iter().enumerate().filter(|(_, (key, value))| is_cut(key, value));
    let (start, (key, value)) = lists().rfind(|(at, _)| *at < first).or_else(|| lists().next())?;
    let text = value.as_str()?;
    let list = if key == keys::ORDER { "order" } else { "list" };
    let names: Vec<&str> = parts.iter().map(|(_, key, _)| *key).collect();
    let what = format!(
        "the {list} was cut at the comma: {key} is {}, and {} became {} without a value",
        quoted(text),
        names.join(", "),
        if parts.len() == 1 { "a key" } else { "keys" }
    );
    // The API server sorts the keys and turns null into "". The original order of several parts is then unknown.
    let is_in_order = parts.iter().all(|(at, _, value)| *at > start && value.is_null());
    let fix = match parts.len() == 1 || is_in_order {
        true => format!("put the {list} in quotes: {key}: \"{text}, {}\"", names.join(", ")),
        false => format!("put the {list} in quotes"),
    };
    Some((key, Finding::error("cut-at-comma", annotation_place(key), what).fix(fix)))
}

/// Returns true if `key` is probably a part of a cut list. Such a key has no value, and is a check or valid in an
/// order. An empty text can also be an intended value, so an item of an order must then name a container of the Pod.
fn is_part(key: &str, value: &Value, spec: &Spec<'_>) -> bool {
    let is_item = || {
        let (steps, errors) = parse_list(key, grammar::ORDER);
        let is_known = || steps.iter().flatten().all(|item| spec.has(&item.until.container));
        errors.is_empty() && (value.is_null() || is_known())
    };
    (value.is_null() || value == "") && (key.parse::<Check>().is_ok() || !key.contains('/') && is_item())
}

//! Limits on the size of a template. Podgate checks these limits before it parses or searches any part of the template.
//! One Pod thus cannot take much of the webhook's time or memory. Real Pods are far below every limit.

use super::keys;
use crate::core::container_list::CONTAINERS_MAX;
use crate::core::names;
use crate::order::edit::{JSON_SIZE_MAX, PathSegment, Place, json_length};
use crate::order::finding::Finding;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Maximum number of JSON values in a Pod, and in each JSON text inside a Pod. A real Pod has a few hundred. The items
/// of lists in podgate's annotations count as values.
pub const JSON_VALUES_MAX: usize = 20_000;
/// Maximum number of JSON values in an injected Pod. Podgate injects nothing if the result would have more.
const INJECTED_VALUES_MAX: usize = 2 * JSON_VALUES_MAX;
/// Maximum number of items of one list or map in a Pod. An injected Pod may have longer lists.
pub const JSON_LIST_ITEMS_MAX: usize = 1_000;
/// Kubernetes' limit on the size of all annotations of an object, in bytes.
pub const ANNOTATIONS_SIZE_MAX: usize = 256 << 10;
/// Maximum number of checks of one container.
pub const CONTAINER_CHECKS_MAX: usize = 64;
/// Maximum number of waits in a Pod. Each container has one wait per container or check that it waits for.
pub const POD_WAITS_MAX: usize = 2_500;
/// Maximum number of findings about labels and annotations.
pub const KEY_FINDINGS_MAX: usize = 100;

/// Checks the size of a template, with or without injected parts.
pub(crate) fn check(template: &Value, is_injected: bool) -> Result<(), Finding> {
    let (pod, items_max, values_max) = match is_injected {
        true => ("the injected Pod", usize::MAX, INJECTED_VALUES_MAX),
        false => ("the Pod", JSON_LIST_ITEMS_MAX, JSON_VALUES_MAX),
    };
    let annotations = Place::metadata("annotations");
    let fields = || annotations.of(template).and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or(0, str::len);
    let length: usize = fields().map(|(key, value)| key.len() + text(value)).sum();
    if length > ANNOTATIONS_SIZE_MAX {
        let what = format!("the annotations have {length} bytes, but Kubernetes allows at most {ANNOTATIONS_SIZE_MAX}");
        return Err(too_large(annotations, what).fix("remove the largest annotation"));
    }
    for list in ["initContainers", "containers"].map(Place::spec) {
        let count = list.of(template).and_then(Value::as_array).map_or(0, Vec::len);
        // An injected template also contains podgate's sidecar.
        if count > CONTAINERS_MAX + usize::from(is_injected) {
            let what = format!("{count} containers, but podgate supports at most {CONTAINERS_MAX}");
            return Err(Finding::error("too-many-containers", list, what).fix("split the Pod"));
        }
    }
    let own = fields().filter(|(key, _)| keys::is_manifest_annotation(key)).filter_map(|(_, value)| value.as_str());
    let mut count: usize = own.map(|text| text.matches([',', '&']).count()).sum();
    let mut length = 0;
    for field in ["metadata", "spec"] {
        let place = Place::root().to(field);
        let Some(value) = place.of(template) else { continue };
        count += count_items(value, items_max).map_err(|(path, items)| {
            let place = place.join(&Place(path.into_iter().rev().collect()));
            too_long(template, place, items)
        })?;
        length += json_length(value);
    }
    let what = if length > JSON_SIZE_MAX {
        format!("{pod} has {length} bytes as JSON, but podgate supports at most {JSON_SIZE_MAX}")
    } else if count > values_max {
        format!("{pod} has {count} fields and list items, but podgate supports at most {values_max}")
    } else {
        return Ok(());
    };
    Err(too_large(Place::root().to("spec"), what).fix("move data to a ConfigMap or an image"))
}

/// Parses a JSON text from a field of a Pod. Returns `None` if the text has too many values or is not a `T`.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> Option<T> {
    if count_values(text.as_bytes()) > JSON_VALUES_MAX { None } else { serde_json::from_str(text).ok() }
}

/// Returns an upper bound for the number of values in a JSON text, without parsing it.
pub(crate) fn count_values(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Counts the values in `value`. Fails with the reversed path and the length of a list or map that is too long.
fn count_items(value: &Value, max: usize) -> Result<usize, (Vec<PathSegment>, usize)> {
    let (length, mut count) = (value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len), 1);
    if length > max {
        return Err((Vec::new(), length));
    }
    let longer = |(mut path, length): (Vec<PathSegment>, usize), step| {
        path.push(step);
        (path, length)
    };
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        count += count_items(item, max).map_err(|found| longer(found, index.into()))?;
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        count += count_items(field, max).map_err(|found| longer(found, key.as_str().into()))?;
    }
    Ok(count)
}

/// Returns the finding for a list or map that is too long. The message names the container with that list or map.
fn too_long(template: &Value, place: Place, count: usize) -> Finding {
    let (container, field) = place.0.split_at(place.0.len().min(3));
    let name = Place(container.to_vec()).to("name").of(template).and_then(Value::as_str);
    let what = match name.filter(|name| names::is_container_name(name) && !field.is_empty()) {
        Some(name) => format!("{} of {name}", Place(field.to_vec())),
        None => place.to_string(),
    };
    let what = format!("{what} has {count} items, but podgate supports at most {JSON_LIST_ITEMS_MAX}");
    too_large(place, what).fix("remove items")
}

fn too_large(at: Place, what: String) -> Finding {
    Finding::error("template-too-large", at, what)
}

//! Compares and merges injected parts to which the API server or other webhooks have added fields or items.

use crate::order::inject::parts;
use serde_json::{Map, Value};

/// Fields of the sidecar that only podgate sets.
const OWNED_FIELDS: [&str; 8] =
    ["name", "image", "command", "args", "lifecycle", "ports", "startupProbe", "restartPolicy"];

/// Returns true if `found` contains all of `wanted`. Ignores additional fields, and additional items in lists of
/// objects, because the API server or other webhooks add such fields and items.
pub(crate) fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| covers(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) if wanted.iter().all(Value::is_object) => {
            let mut rest = found.iter();
            wanted.iter().all(|wanted| rest.any(|found| covers(found, wanted)))
        }
        (found, wanted) => found == wanted,
    }
}

/// Returns the sidecar `new`, plus what the API server and other webhooks have added to the earlier sidecar `found`.
pub(super) fn merge_sidecar(found: &Value, new: &Value) -> Value {
    let (Some(found), Some(fields)) = (found.as_object(), new.as_object()) else { return new.clone() };
    let mut out = fields.clone();
    for (key, found) in found.iter().filter(|(key, _)| !OWNED_FIELDS.contains(&key.as_str())) {
        let merged = match (out.get(key), found) {
            (None, found) => found.clone(),
            (Some(Value::Object(new)), Value::Object(found)) => Value::Object(merge_objects(found, new)),
            (Some(Value::Array(new)), Value::Array(found)) => {
                let is_ours = |item: &&Value| {
                    parts::is_own_item(item) || new.iter().any(|new| parts::item_name(new) == parts::item_name(item))
                };
                new.iter().chain(found.iter().filter(|item| !is_ours(item))).cloned().collect()
            }
            (Some(new), _) => new.clone(),
        };
        out.insert(key.clone(), merged);
    }
    Value::Object(out)
}

fn merge_objects(found: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut out = found.clone();
    for (key, new) in new {
        let merged = match (found.get(key), new) {
            (Some(Value::Object(found)), Value::Object(new)) => Value::Object(merge_objects(found, new)),
            _ => new.clone(),
        };
        out.insert(key.clone(), merged);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn covers_accepts_additions_but_no_changes() {
        let wanted = json!({"a": [{"name": "x", "v": 1}, {"name": "y"}], "c": ["p", "q"]});
        let filled =
            json!({"a": [{"name": "w"}, {"name": "x", "v": 1, "d": 0}, {"name": "y"}], "c": ["p", "q"], "e": {}});
        assert!(covers(&filled, &wanted));
        for other in [
            json!({"a": [{"name": "y"}, {"name": "x", "v": 1}], "c": ["p", "q"]}),
            json!({"a": [{"name": "x", "v": 2}, {"name": "y"}], "c": ["p", "q"]}),
            json!({"a": [{"name": "x", "v": 1}, {"name": "y"}], "c": ["p", "q", "r"]}),
            json!({"a": [{"name": "x", "v": 1}, {"name": "y"}]}),
        ] {
            assert!(!covers(&other, &wanted), "{other}");
        }
    }
}

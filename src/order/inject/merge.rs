//! What the API server and other webhooks have made of injected parts.

use crate::order::inject::parts;
use serde_json::{Map, Value};

/// Fields of the sidecar that nobody else has a say in.
const OWNED_FIELDS: [&str; 6] = ["name", "image", "command", "args", "lifecycle", "restartPolicy"];

/// Whether `found` holds all of `wanted`: further fields are the API server's defaults or another webhook's, and so are further items
/// in lists of named things. (Outside injected parts both are the same.)
pub(super) fn covers(found: &Value, wanted: &Value) -> bool {
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

/// The sidecar `new`, with what others have added to `found`, an earlier one.
pub(super) fn merge_sidecar(found: &Value, new: &Value) -> Value {
    let (Some(found), Some(fields)) = (found.as_object(), new.as_object()) else { return new.clone() };
    let mut out = fields.clone();
    for (key, found) in found.iter().filter(|(key, _)| !OWNED_FIELDS.contains(&key.as_str())) {
        let merged = match (out.get(key), found) {
            (None, found) => found.clone(),
            (Some(Value::Object(new)), Value::Object(found)) => Value::Object(merge_objects(found, new)),
            (Some(Value::Array(new)), Value::Array(found)) => {
                let is_ours = |item: &&Value| {
                    parts::is_own_volume(item) || new.iter().any(|new| parts::item_name(new) == parts::item_name(item))
                };
                new.iter().chain(found.iter().filter(|item| !is_ours(item))).cloned().collect()
            }
            (Some(new), _) => new.clone(),
        };
        out.insert(key.clone(), merged);
    }
    Value::Object(out)
}

/// `new` where both say something.
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
    fn defaults_and_additions_are_covered_and_changes_are_not() {
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

//! What the API server and other webhooks have made of injected parts.

use serde_json::Value;

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

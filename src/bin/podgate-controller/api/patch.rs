//! The patch of the Pod's annotations. No I/O.

use podgate::core::annotations::Annotations;
use podgate::core::names;
use podgate::core::state::State;
use serde_json::{Value, json};

/// Returns the merge patch that turns the `known` annotations of the Pod into the `desired` ones; `None` if they are
/// equal.
pub(super) fn merge_patch(known: &Annotations, desired: &Annotations) -> Option<Value> {
    let changed = desired.iter().filter(|(key, value)| known.get(*key) != Some(*value));
    let changed = changed.map(|(key, value)| (key.clone(), json!(value)));
    let stale = known.keys().filter(|key| !desired.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let patch: serde_json::Map<_, _> = changed.chain(stale).collect();
    // An empty `desired` means that the sidecar has published nothing yet. Do not remove annotations then.
    (!patch.is_empty() && !desired.is_empty()).then_some(Value::Object(patch))
}

/// Returns true if a patch makes the kubelet sync the Pod: to create a held container, or to repeat a lost probe.
pub(super) fn is_release_patch(patch: &Value) -> bool {
    patch.get(names::RELEASE_COUNT_KEY).and_then(Value::as_str).is_some_and(|releases| !releases.ends_with(".0"))
}

/// Returns true if a patch only reports started containers.
pub(super) fn only_reports_starts(patch: &Value) -> bool {
    let started = Value::from(State::Started.as_str());
    let entries = patch.as_object();
    entries.into_iter().flatten().all(|(key, value)| match key.as_str() {
        names::REVISION_KEY | names::LAST_SEEN_TIME_KEY | names::MILESTONE_TIMES_KEY => true,
        key => key.starts_with(names::STATUS_KEY_PREFIX) && *value == started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_sets_changed_and_removes_forged_annotations() {
        let annotations = |pairs: &[(&str, &str)]| -> Annotations {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let desired = annotations(&[("status.podgate.io/db", "Waiting")]);
        assert_eq!(merge_patch(&annotations(&[]), &desired), Some(json!({"status.podgate.io/db": "Waiting"})));
        assert_eq!(merge_patch(&desired, &desired), None);
        let forged = annotations(&[("status.podgate.io/db", "Ready"), ("status.podgate.io/x", "Ready")]);
        let patch = json!({"status.podgate.io/db": "Waiting", "status.podgate.io/x": null});
        assert_eq!(merge_patch(&forged, &desired), Some(patch));
    }

    #[test]
    fn patch_with_only_started_containers_is_minor() {
        let minor = json!({"status.podgate.io/db": "Started", "sandbox.podgate.io/revision": "2",
                           "sandbox.podgate.io/seen": "x", "sandbox.podgate.io/times": "1,db=started+0"});
        assert!(only_reports_starts(&minor));
        for (key, value) in [
            ("status.podgate.io/db", json!("Ready")),
            ("status.podgate.io/x", Value::Null),
            ("sandbox.podgate.io/stage", json!("started")),
            ("sandbox.podgate.io/epoch", json!("e")),
        ] {
            let mut patch = minor.clone();
            patch[key] = value;
            assert!(!only_reports_starts(&patch), "{key}");
        }
    }

    #[test]
    fn patch_with_a_new_number_of_releases_is_a_release() {
        for (releases, expected) in
            [(json!("e1.1"), true), (json!("e1.10"), true), (json!("e1.0"), false), (Value::Null, false)]
        {
            assert_eq!(is_release_patch(&json!({"sandbox.podgate.io/releases": releases})), expected, "{releases}");
        }
    }
}

//! The annotation `podgate.io/injected`: the information that the injected template alone does not contain.

use crate::order::declare::keys;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Version of this podgate.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Data that `uninject` needs in addition to the injected parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Record {
    /// Version of the podgate that wrote it.
    pub(super) version: String,
    /// `kubectl.kubernetes.io/default-container`, if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default_container: Option<String>,
    /// The containers in their original order, if they were reordered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) order: Vec<String>,
    /// Original values of the Pod's empty or null fields: `volumes`, `initContainers`, `annotations`, `metadata`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// Records of containers that need one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) containers: BTreeMap<String, ContainerRecord>,
}

/// Record of one container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerRecord {
    /// Original values of fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// Fields that did not exist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) no: BTreeSet<String>,
    /// Image whose configuration provided the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
}

impl Record {
    /// Reads the record of `template`, if it was injected.
    pub(super) fn read(template: &Value) -> Result<Option<Record>, Finding> {
        let at = parts::annotation_place(keys::INJECTED);
        let Some(found) = at.of(template) else { return Ok(None) };
        let broken = |why: String| {
            let what = format!("podgate's record in this annotation is not valid: {why}");
            Finding::error("injected-unreadable", at.clone(), what).fix("use the manifest from before the injection")
        };
        let text = found.as_str().ok_or_else(|| broken("not a string".to_owned()))?;
        serde_json::from_str(text).map(Some).map_err(|error| broken(error.to_string()))
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

//! The annotation `podgate.io/injected`: what can't be told from the injected template alone.

use crate::order::declare::keys;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The version of this podgate, as records name it.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `uninject` needs beside the injected parts themselves.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Record {
    /// The podgate that wrote it.
    pub(super) version: String,
    /// `kubectl.kubernetes.io/default-container`, if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default_container: Option<String>,
    /// The containers in their former order, if they were moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) order: Vec<String>,
    /// Empty or null fields of the Pod that were filled: `volumes`, `initContainers`, `annotations`, `metadata`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// What can't be told of a container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) containers: BTreeMap<String, ContainerRecord>,
}

/// What can't be told of one container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerRecord {
    /// What stood in a field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// Fields that were not there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) no: BTreeSet<String>,
    /// The image whose own configuration gave the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
}

impl Record {
    /// The record of `template`, if it was injected.
    pub(super) fn read(template: &Value) -> Result<Option<Record>, Finding> {
        let at = parts::annotation_place(keys::INJECTED);
        let Some(found) = at.of(template) else { return Ok(None) };
        let broken = |why: String| {
            let what = format!("what podgate has written here can't be read: {why}");
            Finding::error("injected-unreadable", at.clone(), what)
                .fix("take the template as it was before it was injected")
        };
        let text = found.as_str().ok_or_else(|| broken("no text".to_owned()))?;
        serde_json::from_str(text).map(Some).map_err(|error| broken(error.to_string()))
    }

    /// As it is written.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

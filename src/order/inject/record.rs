//! The annotation `podgate.io/injected` stores the original data that the injected template no longer contains.

use crate::core::container_list::CONTAINERS_MAX;
use crate::order::declare::keys;
use crate::order::declare::limits;
use crate::order::edit::Place;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const THIS_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the fields of a container that podgate can set, nested fields before their parent fields.
pub(super) fn container_fields() -> impl Iterator<Item = &'static str> {
    "command args startupProbe timeoutSeconds initialDelaySeconds env volumeMounts postStart preStop lifecycle"
        .split(' ')
}

/// Returns the Pod fields that a record can contain, each with the field's name in the record.
pub(super) fn pod_fields() -> [(&'static str, Place); 4] {
    let metadata = Place::root().to("metadata");
    [
        ("volumes", Place::spec("volumes")),
        ("initContainers", Place::spec("initContainers")),
        ("annotations", metadata.to("annotations")),
        ("metadata", metadata),
    ]
}

/// Data that `uninject` needs in addition to the injected parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Record {
    /// Version of podgate that wrote the record.
    pub(super) version: String,
    /// Digest of the injected parts, which shows whether a person has changed them; empty in a record without digest.
    #[serde(default)]
    pub(super) digest: String,
    /// Value of `kubectl.kubernetes.io/default-container`, if podgate added that annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default_container: Option<String>,
    /// Container names in their original order, if podgate reordered the containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) order: Vec<String>,
    /// Original values of Pod fields that were empty or null: `volumes`, `initContainers`, `annotations`, `metadata`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// Records of single containers, by name. Omits containers that need no record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) containers: BTreeMap<String, ContainerRecord>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerRecord {
    /// Original values of changed fields, by field name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) was: BTreeMap<String, Value>,
    /// Names of fields that did not exist before the injection.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) no: BTreeSet<String>,
    /// Image whose configuration provided the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
}

impl Record {
    /// Reads the record of `template`; `None` if the template has no record.
    pub(super) fn read(template: &Value) -> Result<Option<Record>, Finding> {
        let at = parts::annotation_place(keys::INJECTION_RECORD);
        let Some(found) = at.of(template) else { return Ok(None) };
        let broken = |why: String| {
            let what = format!("podgate's record in this annotation is not valid: {why}");
            Finding::error("injected-unreadable", at.clone(), what).fix("use the manifest from before the injection")
        };
        limits::check(template, true)?;
        let text = found.as_str().ok_or_else(|| broken("not a string".to_owned()))?;
        let record: Record = serde_json::from_str(text).map_err(|_| broken("not in podgate's format".to_owned()))?;
        if record.order.len().max(record.containers.len()) > CONTAINERS_MAX {
            return Err(broken(format!("more than {CONTAINERS_MAX} containers")));
        }
        let known = pod_fields().map(|(name, _)| name);
        let fields = record.containers.values().flat_map(|of| of.was.keys().chain(&of.no));
        let mut unknown = fields.filter(|field| container_fields().all(|known| known != *field));
        let unknown = unknown.next().or_else(|| record.was.keys().find(|field| !known.contains(&field.as_str())));
        unknown.map_or(Ok(()), |field| Err(broken(format!("unknown field {field:?}"))))?;
        Ok(Some(record))
    }
}

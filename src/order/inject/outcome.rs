//! Options and result of an injection.

use crate::order::edit::Edit;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use crate::order::resources;
use crate::order::sidecar_settings::SidecarSettings;
use serde_json::Value;

/// Settings of an injection that do not come from the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Image that contains the sidecar and the agent.
    pub image: String,
    /// `imagePullPolicy` of the sidecar. `None` omits the field.
    pub image_pull_policy: Option<String>,
    /// True if the sidecar runs as a fixed numeric user. False on OpenShift, which assigns user ids to each namespace.
    pub has_fixed_user: bool,
    /// The sidecar's `resources` in Pods without the annotation `podgate.io/sidecar-resources`.
    pub sidecar_resources: Value,
    /// Settings of podgate's programs, unless the annotation `podgate.io/sidecar-settings` sets them.
    pub sidecar_settings: SidecarSettings,
    /// True if the template comes from the API server. The injection then keeps additions to injected parts by the API
    /// server or other webhooks. Such additions alone do not cause a new injection.
    pub is_from_api: bool,
}

impl Options {
    /// Returns options with the given image and default values for all other fields.
    pub fn new(image: impl Into<String>) -> Options {
        Options {
            image: image.into(),
            image_pull_policy: None,
            has_fixed_user: true,
            sidecar_resources: resources::parse(resources::DEFAULT).unwrap_or_default(),
            sidecar_settings: SidecarSettings::default(),
            is_from_api: false,
        }
    }
}

/// The result of an injection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injected {
    /// The template after the injection.
    pub value: Value,
    /// The edits that turn the given template into `value`; empty if the template needs no change.
    pub edits: Vec<Edit>,
    /// Warnings and notes, with places in the template before the injection.
    pub findings: Vec<Finding>,
    /// The plan of the injection; `None` if no injection was requested. `findings` includes the plan's findings.
    pub plan: Option<Plan>,
}

impl Injected {
    /// Returns the result for a template that needs no change.
    pub fn unchanged(template: &Value) -> Injected {
        Injected { value: template.clone(), ..Injected::default() }
    }
}

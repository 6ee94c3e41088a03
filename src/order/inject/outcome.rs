//! Options and result of an injection.

use crate::order::edit::Edit;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use serde_json::Value;

/// Settings that the manifest does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Image with the sidecar and the agent.
    pub image: String,
    /// Its `imagePullPolicy`; omitted if `None`.
    pub image_pull_policy: Option<String>,
    /// Run the sidecar as a fixed numeric user. Not on OpenShift, which assigns a range of users to each namespace.
    pub has_fixed_user: bool,
    /// The template comes from the API server. Keep what the API server or other webhooks have added to injected parts;
    /// such additions are no reason to inject again.
    pub is_from_api: bool,
}

impl Options {
    /// Returns options with this image and defaults for the rest.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Options {
        Options { image: image.into(), image_pull_policy: None, has_fixed_user: true, is_from_api: false }
    }
}

/// The result of an injection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injected {
    /// The template after the injection.
    pub value: Value,
    /// The edits that turn the given template into `value`; empty if they are equal.
    pub edits: Vec<Edit>,
    /// Warnings and notes, with places in the given template.
    pub findings: Vec<Finding>,
    /// The plan that was written; `None` if nothing is declared. Its findings are included above.
    pub plan: Option<Plan>,
    /// The template without podgate's parts; `None` if the given one has none.
    pub plain: Option<Value>,
}

impl Injected {
    /// Returns the result for a template that stays unchanged.
    #[must_use]
    pub fn unchanged(template: &Value) -> Injected {
        Injected { value: template.clone(), ..Injected::default() }
    }
}

//! What an injection is told, and what comes of it.

use crate::order::edit::Edit;
use crate::order::finding::Finding;
use crate::order::plan::Plan;
use serde_json::Value;

/// Settings that the manifest does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The image with the sidecar and the agent.
    pub image: String,
    /// Its `imagePullPolicy`; left out if `None`.
    pub image_pull_policy: Option<String>,
    /// Give the sidecar its own numeric user. OpenShift gives each namespace its own range: not there.
    pub has_fixed_user: bool,
    /// The template comes from the API server. What that, or other webhooks, have filled into what was injected before stays, and is
    /// no reason to inject anew.
    pub is_from_api: bool,
}

impl Options {
    /// With this image, and all else as it is by default.
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
    /// Warnings and notes, with their places in the given template.
    pub findings: Vec<Finding>,
    /// The plan that was written; `None` where nothing is declared. Its findings are among those above.
    pub plan: Option<Plan>,
    /// The template without podgate's parts; `None` where the given one has none.
    pub plain: Option<Value>,
}

impl Injected {
    /// The result for a template that stays as it is.
    #[must_use]
    pub fn unchanged(template: &Value) -> Injected {
        Injected { value: template.clone(), ..Injected::default() }
    }
}

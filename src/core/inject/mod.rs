//! Writes a plan into a Pod or pod template, and takes it out again. One function under the command line and the webhook.

use crate::core::edit::Edit;
use crate::core::finding::Finding;
use crate::core::plan::Known;
use serde_json::Value;

/// What the manifest does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The image with the sidecar and the agent.
    pub image: String,
    /// Its `imagePullPolicy`; left out if `None`.
    pub image_pull_policy: Option<String>,
    /// Give the sidecar its own numeric user. OpenShift gives each namespace its own range: not there.
    pub fixed_user: bool,
}

/// What has become of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Injected {
    /// The template as it is to be.
    pub value: Value,
    /// How it becomes that, from what it was; empty if it is that already.
    pub edits: Vec<Edit>,
    /// What is to be said about it: warnings and notes.
    pub findings: Vec<Finding>,
}

/// Whether a template declares an order at all; whatever else it holds is none of podgate's business.
#[must_use]
pub fn is_declared(_template: &Value) -> bool {
    false
}

/// Injects into `template`, an object with `metadata` and `spec`. What has been injected before is renewed.
///
/// # Errors
/// All findings, at least one of them an error: nothing is to be changed.
pub fn inject(template: &Value, _options: &Options, _known: &Known) -> Result<Injected, Vec<Finding>> {
    Ok(Injected { value: template.clone(), edits: Vec::new(), findings: Vec::new() })
}

/// Takes out what [`inject`] has put into `template`; one that was never injected stays as it is.
///
/// # Errors
/// What was injected has been changed by hand since, so that the original can't be told.
pub fn uninject(template: &Value) -> Result<Injected, Vec<Finding>> {
    Ok(Injected { value: template.clone(), edits: Vec::new(), findings: Vec::new() })
}

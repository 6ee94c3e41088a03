//! What an injection is told, and what comes of it.

use crate::order::edit::Edit;
use crate::order::edit::Step;
use crate::order::finding::Finding;
use crate::order::inject::parts;
use crate::order::plan::Plan;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the manifest does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The image with the sidecar and the agent.
    pub image: String,
    /// Its `imagePullPolicy`; left out if `None`.
    pub image_pull_policy: Option<String>,
    /// Give the sidecar its own numeric user. OpenShift gives each namespace its own range: not there.
    pub fixed_user: bool,
    /// The template comes from the API server. What that, or other webhooks, have filled into what was injected before stays, and is
    /// no reason to inject anew.
    pub from_api: bool,
}

impl Options {
    /// With this image, and all else as it is by default.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Options {
        Options { image: image.into(), image_pull_policy: None, fixed_user: true, from_api: false }
    }
}

/// What has become of a template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injected {
    /// The template as it is to be.
    pub value: Value,
    /// How it becomes that, from what it was; empty if it is that already.
    pub edits: Vec<Edit>,
    /// Warnings and notes, with their places in the given template.
    pub findings: Vec<Finding>,
    /// The plan that was written; `None` where nothing is declared. Its findings are among those above.
    pub plan: Option<Plan>,
    /// The template without podgate's parts; `None` where the given one has none.
    pub plain: Option<Value>,
}

impl Injected {
    /// Nothing changes.
    #[must_use]
    pub fn unchanged(template: &Value) -> Injected {
        Injected { value: template.clone(), ..Injected::default() }
    }
}

/// Findings whose places count the items of lists in `plain`, with their places in `template`: items go by their names.
#[must_use]
pub fn in_place(mut findings: Vec<Finding>, plain: &Value, template: &Value) -> Vec<Finding> {
    let mut there = BTreeMap::new();
    for field in ["initContainers", "containers", "ephemeralContainers", "volumes"] {
        // The first of a name counts.
        for (at, item) in parts::items(template, &parts::spec(field)).iter().enumerate().rev() {
            there.insert((field, parts::name(item)), at);
        }
    }
    for finding in &mut findings {
        if let [Step::Key(spec), Step::Key(list), Step::Index(at), ..] = finding.at.0.as_mut_slice()
            && spec == "spec"
            && let Some(name) = parts::items(plain, &parts::spec(list)).get(*at).and_then(parts::name)
            && let Some(found) = there.get(&(list.as_str(), Some(name)))
        {
            *at = *found;
        }
    }
    findings
}

//! Injects a plan into a Pod or Pod template, and removes injected parts again.

mod by_hand;
mod command_lines;
pub(in crate::order) mod container_list;
pub(in crate::order) mod existing;
mod istio;
mod merge;
mod outdated;
pub(in crate::order) mod parts;
mod preconditions;
mod record;
mod undo;
mod user_hooks;
mod write;

pub(crate) use istio::REWRITTEN_PATH_PREFIX;
pub use outdated::outdated;
pub use parts::without_nulls;

use crate::order::declare::limits::check as check_size;
use crate::order::declare::{self, check_key, describes_one_pod, keys};
use crate::order::edit::{Edit, Op, PathSegment, Place, apply};
use crate::order::finding::Finding;
use crate::order::plan::{KnownFacts, Plan, plan};
use crate::order::resources;
use crate::order::sidecar_settings::SidecarSettings;
use existing::ExistingInjection;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

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

/// Returns true if a template declares an order or has the label `podgate.io/inject: enabled`. Always false with the
/// label `podgate.io/inject: disabled`.
pub fn wants_injection(template: &Value) -> bool {
    match inject_label(template) {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => declare::is_declared(template),
    }
}

/// Returns the value of the label `podgate.io/inject`; `None` if the template has no such label.
pub fn inject_label(template: &Value) -> Option<&str> {
    template["metadata"]["labels"][keys::INJECT_LABEL].as_str()
}

/// Returns true if a template has podgate's record of an injection.
pub fn is_injected(template: &Value) -> bool {
    parts::annotation_place(keys::INJECTION_RECORD).of(template).is_some()
}

/// Returns true if a template has the parts of an order without a sidecar. An API server without image volumes drops
/// the volume, but not the gates.
pub fn is_injected_without_sidecar(template: &Value) -> bool {
    let mut containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let asks = |own: &Value| own["command"].as_array().is_some_and(|words| words.contains(&"--ask".into()));
    is_injected(template) && (parts::find_image(template).is_some() || containers.any(asks))
}

/// Injects into `template`, an object with `metadata` and `spec`. Updates an earlier injection, or removes the
/// injected parts if the template no longer declares an order. Also removes the annotations of another running Pod, of
/// which the template may be a copy. Leaves a template with the label `podgate.io/inject: disabled` unchanged.
///
/// # Errors
/// Returns all findings, at least one of them an error. The caller must then leave the template unchanged.
pub fn inject(template: &Value, options: &Options, known: &KnownFacts) -> Result<Injected, Vec<Finding>> {
    if inject_label(template) == Some("disabled") {
        return Ok(Injected::unchanged(template));
    }
    let annotations = Place::metadata("annotations").of(template).and_then(Value::as_object).into_iter().flatten();
    let copied: Vec<&str> = annotations.map(|(key, _)| key.as_str()).filter(|key| describes_one_pod(key)).collect();
    if copied.is_empty() {
        return strip(template)?.inject(options, known);
    }
    check_size(template, is_injected(template))?;
    let mut own = template.clone();
    if let Some(annotations) = own["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !describes_one_pod(key));
    }
    let mut injected = strip(&own)?.inject(options, known)?;
    let places = || copied.iter().map(|key| parts::annotation_place(key));
    injected.edits.splice(0..0, places().map(|at| Edit { at, op: Op::Remove }));
    // A tool that copies Pods does not know these annotations, but a manifest should not contain them.
    let found = copied.iter().zip(places()).filter_map(|(key, at)| check_key(key, "annotations", at));
    injected.findings.extend(found.filter(|_| !options.is_from_api));
    Ok(injected)
}

/// Copies settings of an earlier injection to `options`: the pull policy unless `options` has one, and the absence of a
/// fixed user id. Also copies the image, unless `sets_image` is true. If the template's image differs from that of
/// `options`, returns a message about the image in use.
pub fn keep_earlier_settings(template: &Value, options: &mut Options, sets_image: bool) -> Option<String> {
    let existing = ExistingInjection::read(template).ok()??;
    let (image, policy) = existing.image()?;
    options.image_pull_policy = options.image_pull_policy.take().or_else(|| policy.map(str::to_owned));
    let sidecar = existing.sidecar.as_ref().map(|(_, sidecar)| sidecar);
    options.has_fixed_user &= sidecar.is_none_or(|sidecar| sidecar.pointer("/securityContext/runAsUser").is_some());
    let image = Some(image).filter(|image| !sets_image && *image != options.image)?;
    if existing.image_of_this_version().is_none() {
        return Some(format!("replaces image {image} of another version"));
    }
    image.clone_into(&mut options.image);
    Some(format!("keeps image {image}"))
}

/// Removes the parts that [`inject`] has added to `template`. Does not change a template without injected parts.
///
/// # Errors
/// Fails if the original cannot be restored, because the injected parts or the record were changed by hand.
pub fn strip(template: &Value) -> Result<Stripped<'_>, Vec<Finding>> {
    let Some(existing) = ExistingInjection::read(template)? else {
        return Ok(Stripped { template, existing: None, plain: Cow::Borrowed(template), edits: Vec::new() });
    };
    let changes = existing.manual_changes();
    if !changes.is_empty() {
        return Err(changes);
    }
    let (plain, edits) = existing.remove_parts()?.finish();
    Ok(Stripped { template, plain: Cow::Owned(plain), edits, existing: Some(existing) })
}

/// Removes the injected parts like [`strip`], and returns the edits.
///
/// # Errors
/// Fails if the original cannot be restored, as in [`strip`].
pub fn uninject(template: &Value) -> Result<Injected, Vec<Finding>> {
    let Stripped { plain, edits, .. } = strip(template)?;
    Ok(Injected { value: plain.into_owned(), edits, ..Injected::default() })
}

/// A template, and the same template without injected parts.
#[derive(Debug)]
pub struct Stripped<'a> {
    template: &'a Value,
    existing: Option<ExistingInjection<'a>>,
    plain: Cow<'a, Value>,
    /// Edits that turn `template` into `plain`.
    edits: Vec<Edit>,
}

impl Stripped<'_> {
    /// Returns the template without injected parts.
    pub fn plain(&self) -> &Value {
        &self.plain
    }

    /// Injects into the template. The caller must check first that the template does not have the label
    /// `podgate.io/inject: disabled`. Unlike [`inject`], does not remove the annotations of a running Pod.
    ///
    /// # Errors
    /// Returns all findings, at least one of them an error.
    pub fn inject(&self, options: &Options, known: &KnownFacts) -> Result<Injected, Vec<Finding>> {
        let (template, mut edits) = (self.template, self.edits.clone());
        if !wants_injection(&self.plain) {
            return Ok(Injected { value: self.plain.clone().into_owned(), edits, ..Injected::default() });
        }
        let Some(existing) = &self.existing else { return inject_plain(template, options, known, None) };
        let mut options = options.clone();
        if let Some(image) = existing.image_of_this_version().filter(|_| options.is_from_api) {
            image.clone_into(&mut options.image);
        }
        let after = inject_plain(&self.plain, &options, &existing.add_facts(known), Some(template));
        let mut after = after.map_err(|findings| self.relocate(findings))?;
        after.findings = self.relocate(after.findings);
        if after.value == *template || options.is_from_api && merge::covers(template, &after.value) {
            return Ok(Injected { value: template.clone(), edits: Vec::new(), ..after });
        }
        if !options.is_from_api {
            after.findings.extend(by_hand::undone_changes(template, &after.value, &existing.record.digest));
        }
        if options.is_from_api
            && let (Some((_, found)), Some((at, new))) = (&existing.sidecar, parts::find_sidecar(&after.value))
        {
            let edit = Edit { op: Op::Set(merge::merge_sidecar(found, new)), at };
            apply(&mut after.value, &edit)?;
            after.edits.push(edit);
        }
        edits.append(&mut after.edits);
        Ok(Injected { edits, ..after })
    }

    /// Translates the findings' places from [`Stripped::plain`] to the template. Matches list items by name.
    pub fn relocate(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        let mut positions = BTreeMap::new();
        for field in ["initContainers", "containers", "volumes"] {
            // If several items have the same name, use the first.
            for (at, item) in Place::spec(field).items(self.template).iter().enumerate().rev() {
                positions.insert((field, parts::item_name(item)), at);
            }
        }
        for finding in &mut findings {
            if let [PathSegment::Key(spec), PathSegment::Key(list), PathSegment::Index(at), ..] =
                finding.at.0.as_mut_slice()
                && &**spec == "spec"
                && let Some(name) = Place::spec(list).items(&self.plain).get(*at).and_then(parts::item_name)
                && let Some(found) = positions.get(&(&**list, Some(name)))
            {
                *at = *found;
            }
        }
        findings
    }
}

/// Injects into a template without injected parts. `injected_before` is the template with earlier injected parts.
fn inject_plain(
    template: &Value,
    options: &Options,
    known: &KnownFacts,
    injected_before: Option<&Value>,
) -> Result<Injected, Vec<Finding>> {
    let mut plan = plan(template, known)?;
    let mut findings = std::mem::take(&mut plan.findings);
    match write::write(template, &plan, options, injected_before) {
        Ok(Some(written)) => {
            findings.extend(written.findings);
            Ok(Injected { findings, plan: Some(plan), ..written })
        }
        Ok(None) => {
            findings.extend(declare::settings_without_order(template));
            if findings.is_empty() {
                let what = "the annotations require nothing from podgate";
                findings.push(Finding::note("nothing-to-do", Place::root().to("metadata"), what));
            }
            Ok(Injected { value: template.clone(), findings, plan: Some(plan), ..Injected::default() })
        }
        Err(more) => Err([findings, more].concat()),
    }
}

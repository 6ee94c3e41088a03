//! Injects a plan into a Pod or Pod template, and removes injected parts again. The command line and the webhook use
//! this module.
//!
//! | file | purpose |
//! |---|---|
//! | `outcome` | options and result of an injection |
//! | `parts` | podgate's names, volumes, mounts and sidecar |
//! | `command_lines` | command lines of the agent: gate, hooks, startupProbe |
//! | `checks` | converts probes to checks that the agent can run |
//! | `user_hooks` | runs the user's own hooks from podgate's hooks |
//! | `container_list` | `PODGATE_CONTAINERS`, the sidecar's list of containers |
//! | `istio` | probes and hooks that Istio has rewritten |
//! | `preconditions` | reasons that prevent an injection |
//! | `write` | writes a plan into a template |
//! | `limits` | limits the size of the injected parts |
//! | `reorder` | reorders the items of a list |
//! | `record` | the annotation that makes the injection reversible |
//! | `undo` | removes the injected parts |
//! | `merge` | keeps additions by the API server and other webhooks |
//! | `lost_parts` | podgate's parts that other webhooks have removed |

mod checks;
mod command_lines;
mod container_list;
mod istio;
mod limits;
mod lost_parts;
mod merge;
mod outcome;
mod parts;
mod preconditions;
mod record;
mod reorder;
mod undo;
mod user_hooks;
mod write;

pub(crate) use istio::REWRITTEN_PATH;
pub(crate) use lost_parts::lost_parts;
pub use outcome::{Injected, Options};
pub use parts::without_nulls;

use crate::core::container::Container;
use crate::order::declare::{self, keys};
use crate::order::dollars;
use crate::order::edit::{Edit, Op, PathSegment, Place, apply};
use crate::order::finding::Finding;
use crate::order::plan::{ImageCommand, KnownFacts, plan};
use record::{Record, VERSION};
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns true if a template declares an order or has the label `podgate.io/inject: enabled`. Always false with the
/// label `podgate.io/inject: disabled`.
#[must_use]
pub fn is_requested(template: &Value) -> bool {
    match inject_label(template) {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => declare::is_declared(template),
    }
}

/// Returns the value of the label `podgate.io/inject`; `None` if the template has no such label.
#[must_use]
pub fn inject_label(template: &Value) -> Option<&str> {
    template.get("metadata")?.get("labels")?.get(keys::INJECT)?.as_str()
}

/// Returns true if a template has podgate's record of an injection.
#[must_use]
pub fn is_injected(template: &Value) -> bool {
    parts::annotation_place(keys::INJECTED).of(template).is_some()
}

/// Injects into `template`, an object with `metadata` and `spec`. Updates an earlier injection, or removes the
/// injected parts if the template no longer declares an order. Leaves a template with the label
/// `podgate.io/inject: disabled` unchanged.
///
/// # Errors
/// Returns all findings, at least one of them an error. The caller must then leave the template unchanged.
pub fn inject(template: &Value, options: &Options, known: &KnownFacts) -> Result<Injected, Vec<Finding>> {
    if inject_label(template) == Some("disabled") {
        return Ok(Injected::unchanged(template));
    }
    let unknown = parts::annotation_place(keys::UNKNOWN_CONTAINERS);
    if unknown.of(template).is_some() {
        // Only an earlier call of the webhook writes this key. This call decides again.
        let (edit, mut template) = (Edit { at: unknown, op: Op::Remove }, template.clone());
        apply(&mut template, &edit)?;
        let mut injected = inject(&template, options, known)?;
        injected.edits.insert(0, edit);
        return Ok(injected);
    }
    let Some(before) = undo::undo(template)? else {
        return if is_requested(template) {
            inject_plain(template, options, known)
        } else {
            Ok(Injected::unchanged(template))
        };
    };
    let (known, options) = (keep_image_commands(template, known), keep_sidecar_image(template, options));
    let (plain, mut edits) = before.finish();
    if !is_requested(&plain) {
        return Ok(Injected { value: plain.clone(), edits, plain: Some(plain), ..Injected::default() });
    }
    let mut after =
        inject_plain(&plain, &options, &known).map_err(|findings| relocate_findings(findings, &plain, template))?;
    after.findings = relocate_findings(after.findings, &plain, template);
    after.plain = Some(plain);
    if after.value == *template || options.is_from_api && merge::covers(template, &after.value) {
        return Ok(Injected { value: template.clone(), edits: Vec::new(), ..after });
    }
    if options.is_from_api
        && let (Some((_, found)), Some((at, new))) = (undo::find_sidecar(template), undo::find_sidecar(&after.value))
    {
        let edit = Edit { op: Op::Set(merge::merge_sidecar(found, new)), at };
        apply(&mut after.value, &edit)?;
        after.edits.push(edit);
    }
    edits.append(&mut after.edits);
    Ok(Injected { edits, ..after })
}

/// Returns `returned`, a Pod of the API server, as podgate injects it after the changes by all other webhooks. Unlike
/// [`inject`], accepts that parts of podgate are missing. Returns `None` without the record of an injection.
///
/// # Errors
/// Returns the findings that prevent the injection.
pub fn inject_again(returned: &Value, known: &KnownFacts) -> Result<Option<Value>, Vec<Finding>> {
    let Some(record) = Record::read(returned)? else { return Ok(None) };
    limits::check_injected(returned)?;
    let (plain, _) = undo::remove_parts(&record, returned)?.finish();
    let known = keep_image_commands(returned, known);
    let again = inject_plain(&plain, &Options::new("podgate"), &known);
    Ok(Some(again.map_err(|findings| relocate_findings(findings, &plain, returned))?.value))
}

/// Injects into a template that has no injected parts.
fn inject_plain(template: &Value, options: &Options, known: &KnownFacts) -> Result<Injected, Vec<Finding>> {
    let mut plan = plan(template, known)?;
    let mut findings = std::mem::take(&mut plan.findings);
    match write::write(template, &plan, options) {
        Ok(Some((value, edits, more))) => {
            findings.extend(more);
            Ok(Injected { value, edits, findings, plan: Some(plan), plain: None })
        }
        Ok(None) => {
            findings.extend(declare::nothing_declared(template));
            if findings.is_empty() {
                let what = "the annotations require nothing from podgate";
                findings.push(Finding::note("nothing-to-do", Place::root().to("metadata"), what));
            }
            Ok(Injected { findings, plan: Some(plan), ..Injected::unchanged(template) })
        }
        Err(more) => {
            findings.extend(more);
            Err(findings)
        }
    }
}

/// Returns the sidecar's list of containers; `None` if the template has no sidecar with a valid list.
pub(crate) fn sidecar_list(template: &Value) -> Option<Vec<Container>> {
    container_list::from_sidecar(undo::find_sidecar(template)?.1)
}

/// Returns the version of podgate that has injected `template`.
pub(crate) fn injected_version(template: &Value) -> Option<String> {
    Record::read(template).ok()?.map(|record| record.version)
}

/// Returns true if the container `name` has the variable that makes the kubelet hold it. The API server adds default
/// fields to the variable.
pub(crate) fn is_held(container: &Value, name: &str) -> bool {
    let wanted = parts::hold_variable(name);
    parts::items(container, &Place::root().to("env")).iter().any(|one| merge::covers(one, &wanted))
}

/// Removes the parts that [`inject`] has added to `template`. Does not change a template without injected parts.
///
/// # Errors
/// Fails if the original cannot be restored, because the injected parts or the record were changed by hand.
pub fn uninject(template: &Value) -> Result<Injected, Vec<Finding>> {
    Ok(match undo::undo(template)? {
        Some(editor) => {
            let (value, edits) = editor.finish();
            Injected { value, edits, ..Injected::default() }
        }
        None => Injected::unchanged(template),
    })
}

/// Adds the image commands from an earlier injection, for containers with an unchanged image. The webhook thus need not
/// repeat the image lookups of the command line.
fn keep_image_commands(template: &Value, known: &KnownFacts) -> KnownFacts {
    let mut known = known.clone();
    let Ok(Some(record)) = Record::read(template) else { return known };
    for item in parts::items(template, &parts::spec_place("containers")) {
        let Some(name) = parts::item_name(item) else { continue };
        let Some(image) = record.containers.get(name).and_then(|of| of.image.as_deref()) else { continue };
        let words = parts::string_list(item.get("command")).unwrap_or_default();
        if item.get("image").and_then(Value::as_str) == Some(image)
            && let Some(end) = words.iter().position(|word| word == "--")
        {
            let entrypoint = words[end + 1..].iter().map(|word| dollars::unescape(word)).collect();
            known.images.entry(name.to_owned()).or_insert(ImageCommand { entrypoint, cmd: Vec::new() });
        }
    }
    known
}

/// Keeps the image of an existing sidecar of this version if the template comes from the API server. Another webhook
/// may have changed the image, for example to a mirror.
fn keep_sidecar_image(template: &Value, options: &Options) -> Options {
    let mut options = options.clone();
    let is_own = || matches!(Record::read(template), Ok(Some(record)) if record.version == VERSION);
    if options.is_from_api
        && is_own()
        && let Some(image) = undo::find_sidecar(template).and_then(|(_, sidecar)| sidecar.get("image")?.as_str())
    {
        image.clone_into(&mut options.image);
    }
    options
}

/// Translates the findings' places from `plain` to `template`. Matches list items by name.
#[must_use]
pub fn relocate_findings(mut findings: Vec<Finding>, plain: &Value, template: &Value) -> Vec<Finding> {
    let mut positions = BTreeMap::new();
    for field in ["initContainers", "containers", "ephemeralContainers", "volumes"] {
        // If several items have the same name, use the first.
        for (at, item) in parts::items(template, &parts::spec_place(field)).iter().enumerate().rev() {
            positions.insert((field, parts::item_name(item)), at);
        }
    }
    for finding in &mut findings {
        if let [PathSegment::Key(spec), PathSegment::Key(list), PathSegment::Index(at), ..] =
            finding.at.0.as_mut_slice()
            && spec == "spec"
            && let Some(name) = parts::items(plain, &parts::spec_place(list)).get(*at).and_then(parts::item_name)
            && let Some(found) = positions.get(&(list.as_str(), Some(name)))
        {
            *at = *found;
        }
    }
    findings
}

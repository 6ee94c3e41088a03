//! Writes a plan into a Pod or pod template, and takes it out again. One function under the command line and the webhook.
//!
//! | file | holds |
//! |---|---|
//! | `outcome` | what an injection is told, and what comes of it |
//! | `parts` | names, volumes, mounts, the sidecar |
//! | `command_lines` | the agent's command lines: gate, hooks, startupProbe |
//! | `checks` | a probe as a check of the agent's |
//! | `hooks` | the user's own hooks, within podgate's |
//! | `container_list` | what the sidecar is told of the containers |
//! | `preconditions` | what can't be injected into |
//! | `write` | a plan, written into a template |
//! | `reorder` | the items of a list, put into another order |
//! | `record` | the annotation by which it can be undone |
//! | `undo` | that |
//! | `merge` | what the API server and other webhooks have made of injected parts |

mod checks;
mod command_lines;
mod container_list;
mod hooks;
mod merge;
mod outcome;
mod parts;
mod preconditions;
mod record;
mod reorder;
mod undo;
mod write;

pub use outcome::{Injected, Options};

use crate::order::declare::{self, keys};
use crate::order::edit::{Edit, Op, PathSegment, Place, apply};
use crate::order::finding::Finding;
use crate::order::plan::{ImageCommand, KnownImages, plan};
use record::{Record, VERSION};
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether a template declares an order at all; whatever else it holds is none of podgate's business.
#[must_use]
pub fn is_requested(template: &Value) -> bool {
    match inject_label(template) {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => declare::is_declared(template),
    }
}

/// The value of the label `podgate.io/inject`.
#[must_use]
pub fn inject_label(template: &Value) -> Option<&str> {
    template.get("metadata")?.get("labels")?.get(keys::INJECT)?.as_str()
}

/// Whether podgate has been injected into a template, by its own annotation.
#[must_use]
pub fn is_injected(template: &Value) -> bool {
    parts::annotation_place(keys::INJECTED).of(template).is_some()
}

/// Injects into `template`, an object with `metadata` and `spec`. What has been injected before is renewed; if nothing is declared any
/// more, it is taken out. A template with the label `podgate.io/inject: disabled` is left alone.
///
/// # Errors
/// All findings, at least one of them an error: nothing is to be changed.
pub fn inject(template: &Value, options: &Options, known: &KnownImages) -> Result<Injected, Vec<Finding>> {
    if inject_label(template) == Some("disabled") {
        return Ok(Injected::unchanged(template));
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

/// Plans and writes, into a template with nothing of podgate's in it.
fn inject_plain(template: &Value, options: &Options, known: &KnownImages) -> Result<Injected, Vec<Finding>> {
    let mut plan = plan(template, known)?;
    let mut findings = std::mem::take(&mut plan.findings);
    match write::write(template, &plan, options) {
        Ok(Some((value, edits, more))) => {
            findings.extend(more);
            Ok(Injected { value, edits, findings, plan: Some(plan), plain: None })
        }
        Ok(None) => {
            if findings.is_empty() {
                let what = "nothing is declared that podgate would have to do";
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

/// Takes out what [`inject`] has put into `template`; one that was never injected stays as it is.
///
/// # Errors
/// What was injected has been changed by hand since, so that the original can't be told.
pub fn uninject(template: &Value) -> Result<Injected, Vec<Finding>> {
    Ok(match undo::undo(template)? {
        Some(editor) => {
            let (value, edits) = editor.finish();
            Injected { value, edits, ..Injected::default() }
        }
        None => Injected::unchanged(template),
    })
}

/// What was known of images at an earlier injection goes on being known while the image's name is the same: so what the command line
/// has looked up, the webhook need not.
fn keep_image_commands(template: &Value, known: &KnownImages) -> KnownImages {
    let mut known = known.clone();
    let Ok(Some(record)) = Record::read(template) else { return known };
    for item in parts::items(template, &parts::spec_place("containers")) {
        let Some(name) = parts::item_name(item) else { continue };
        let Some(image) = record.containers.get(name).and_then(|of| of.image.as_deref()) else { continue };
        let words = parts::string_list(item.get("command")).unwrap_or_default();
        if item.get("image").and_then(Value::as_str) == Some(image)
            && let Some(end) = words.iter().position(|word| word == "--")
        {
            let entrypoint = words[end + 1..].iter().map(|word| parts::unescape_dollars(word)).collect();
            known.images.entry(name.to_owned()).or_insert(ImageCommand { entrypoint, cmd: Vec::new() });
        }
    }
    known
}

/// Where the sidecar of this very podgate stands already, and comes from the API server, its image is the one that was asked for, or
/// what another webhook has made of that: a mirror, say.
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

/// Findings whose places count the items of lists in `plain`, with their places in `template`: items go by their names.
#[must_use]
pub fn relocate_findings(mut findings: Vec<Finding>, plain: &Value, template: &Value) -> Vec<Finding> {
    let mut there = BTreeMap::new();
    for field in ["initContainers", "containers", "ephemeralContainers", "volumes"] {
        // The first of a name counts.
        for (at, item) in parts::items(template, &parts::spec_place(field)).iter().enumerate().rev() {
            there.insert((field, parts::item_name(item)), at);
        }
    }
    for finding in &mut findings {
        if let [PathSegment::Key(spec), PathSegment::Key(list), PathSegment::Index(at), ..] =
            finding.at.0.as_mut_slice()
            && spec == "spec"
            && let Some(name) = parts::items(plain, &parts::spec_place(list)).get(*at).and_then(parts::item_name)
            && let Some(found) = there.get(&(list.as_str(), Some(name)))
        {
            *at = *found;
        }
    }
    findings
}

#[cfg(test)]
mod tests;

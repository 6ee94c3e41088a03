//! Writes a plan into a Pod or pod template, and takes it out again. One function under the command line and the webhook.
//!
//! | file | holds |
//! |---|---|
//! | `parts` | names, volumes, mounts, the sidecar |
//! | `lines` | the agent's command lines: gate, hooks, startupProbe |
//! | `checks` | a probe as a check of the agent's |
//! | `hooks` | the user's own hooks, within podgate's |
//! | `told` | what the sidecar is told of the containers |
//! | `refuse` | what can't be injected into |
//! | `write` | a plan, written into a template |
//! | `record` | the annotation by which it can be undone |
//! | `undo` | that |
//! | `foreign` | what the API server and other webhooks have made of injected parts |

mod checks;
mod foreign;
mod hooks;
mod lines;
mod parts;
mod record;
mod refuse;
mod told;
mod undo;
mod write;

pub use write::write;

use crate::order::declare::{self, keys};
use crate::order::edit::{Edit, Editor, Misfit, Op, Place, Step, apply};
use crate::order::finding::Finding;
use crate::order::plan::{ImageCommand, Known, plan};
use record::Record;
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
#[derive(Debug, Clone, PartialEq)]
pub struct Injected {
    /// The template as it is to be.
    pub value: Value,
    /// How it becomes that, from what it was; empty if it is that already.
    pub edits: Vec<Edit>,
    /// What is to be said about it: warnings and notes.
    pub findings: Vec<Finding>,
}

impl Injected {
    fn unchanged(template: &Value) -> Injected {
        Injected { value: template.clone(), edits: Vec::new(), findings: Vec::new() }
    }
}

/// Whether a template declares an order at all; whatever else it holds is none of podgate's business.
#[must_use]
pub fn is_declared(template: &Value) -> bool {
    match label(template) {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => declare::is_declared(template),
    }
}

fn label(template: &Value) -> Option<&str> {
    template.get("metadata")?.get("labels")?.get(keys::INJECT)?.as_str()
}

/// Whether podgate has been injected into a template, by its own annotation.
#[must_use]
pub fn is_injected(template: &Value) -> bool {
    parts::annotation(keys::INJECTED).of(template).is_some()
}

/// Injects into `template`, an object with `metadata` and `spec`. What has been injected before is renewed; if nothing is declared any
/// more, it is taken out. A template with the label `podgate.io/inject: disabled` is left alone.
///
/// # Errors
/// All findings, at least one of them an error: nothing is to be changed.
pub fn inject(template: &Value, options: &Options, known: &Known) -> Result<Injected, Vec<Finding>> {
    if label(template) == Some("disabled") {
        return Ok(Injected::unchanged(template));
    }
    let before = undo::undo(template)?;
    let Some(before) = before else {
        if !is_declared(template) {
            return Ok(Injected::unchanged(template));
        }
        let plan = plan(template, known)?;
        return write(template, &plan, options);
    };
    let (known, options) = (kept(template, known), rewritten(template, options));
    let (plain, mut edits) = before.finish();
    if !is_declared(&plain) {
        return Ok(Injected { value: plain, edits, findings: Vec::new() });
    }
    let in_place =
        |findings: Vec<Finding>| findings.into_iter().map(|finding| replaced(finding, &plain, template)).collect();
    let mut after = plan(&plain, &known)
        .and_then(|plan| write(&plain, &plan, &options))
        .map_err(|findings| -> Vec<Finding> { in_place(findings) })?;
    after.findings = in_place(after.findings);
    if after.value == *template || options.from_api && foreign::covers(template, &after.value) {
        return Ok(Injected { findings: after.findings, ..Injected::unchanged(template) });
    }
    let sidecars = (undo::sidecar(template), undo::sidecar(&after.value));
    if let (true, (Some(found), Some(at))) = (options.from_api, sidecars)
        && let (Some(found), Some(new)) = (found.of(template), at.of(&after.value))
    {
        let edit = Edit { op: Op::Set(foreign::kept(found, new)), at };
        apply(&mut after.value, &edit).map_err(|misfit| write::strange(&misfit))?;
        after.edits.push(edit);
    }
    edits.append(&mut after.edits);
    Ok(Injected { edits, ..after })
}

/// Takes out what [`inject`] has put into `template`; one that was never injected stays as it is.
///
/// # Errors
/// What was injected has been changed by hand since, so that the original can't be told.
pub fn uninject(template: &Value) -> Result<Injected, Vec<Finding>> {
    Ok(match undo::undo(template)? {
        Some(editor) => {
            let (value, edits) = editor.finish();
            Injected { value, edits, findings: Vec::new() }
        }
        None => Injected::unchanged(template),
    })
}

/// What was known of images at an earlier injection goes on being known while the image's name is the same: so what the command line
/// has looked up, the webhook need not.
#[must_use]
pub fn kept(template: &Value, known: &Known) -> Known {
    let mut known = known.clone();
    let Ok(Some(record)) = Record::read(template) else { return known };
    for item in parts::items(template, &parts::spec("containers")) {
        let Some(name) = parts::name(item) else { continue };
        let Some(image) = record.of(name).and_then(|of| of.image.as_deref()) else { continue };
        let words = parts::strings(item.get("command")).unwrap_or_default();
        let own = words.iter().position(|word| word == "--").map(|end| &words[end + 1..]);
        if let Some(own) = own.filter(|_| item.get("image").and_then(Value::as_str) == Some(image)) {
            let entrypoint = own.iter().map(|word| parts::unescaped(word)).collect();
            known.images.entry(name.to_owned()).or_insert(ImageCommand { entrypoint, cmd: Vec::new() });
        }
    }
    known
}

/// Where the sidecar of this very podgate stands already, and comes from the API server, its image is the one that was asked for, or
/// what another webhook has made of that: a mirror, say.
fn rewritten(template: &Value, options: &Options) -> Options {
    let mut options = options.clone();
    let is_own = || Record::read(template).is_ok_and(|record| record.is_some_and(|record| record.is_of_this_version()));
    if options.from_api
        && is_own()
        && let Some(image) = undo::sidecar(template).and_then(|at| at.of(template)?.get("image")?.as_str())
    {
        image.clone_into(&mut options.image);
    }
    options
}

/// A finding whose place counts the containers of `plain`, with that place in `template`.
fn replaced(mut finding: Finding, plain: &Value, template: &Value) -> Finding {
    if let [Step::Key(spec), Step::Key(list), Step::Index(at), ..] = finding.at.0.as_mut_slice()
        && spec == "spec"
    {
        let list = parts::spec(list);
        let name = parts::items(plain, &list).get(*at).and_then(parts::name);
        if let Some(found) =
            parts::items(template, &list).iter().position(|item| name.is_some() && parts::name(item) == name)
        {
            *at = found;
        }
    }
    finding
}

/// Puts the items of a list into the order `wanted` (indices as they are now), with as few moves as can be.
fn reorder(editor: &mut Editor, list: &Place, wanted: &[usize]) -> Result<(), Misfit> {
    let stay = longest_rising(wanted);
    let mut now: Vec<usize> = (0..wanted.len()).collect();
    for (n, item) in wanted.iter().enumerate() {
        if stay.contains(item) {
            continue;
        }
        let Some(from) = now.iter().position(|at| at == item) else { continue };
        now.remove(from);
        // Behind the one that it is to follow, which has its place already.
        let to =
            n.checked_sub(1).and_then(|n| now.iter().position(|at| *at == wanted[n])).map_or(0, |before| before + 1);
        now.insert(to, *item);
        if from != to {
            editor.edit(list.to(from), Op::Move(to))?;
        }
    }
    Ok(())
}

/// The longest rising part of a sequence: those that need not move.
fn longest_rising(sequence: &[usize]) -> Vec<usize> {
    let mut best: Vec<(usize, Option<usize>)> = Vec::with_capacity(sequence.len());
    for (n, value) in sequence.iter().enumerate() {
        let before = (0..n).filter(|m| sequence[*m] < *value).max_by_key(|m| best[*m].0);
        best.push((before.map_or(1, |m| best[m].0 + 1), before));
    }
    let mut at = (0..best.len()).max_by_key(|n| best[*n].0);
    let mut found = Vec::new();
    while let Some(n) = at {
        found.push(sequence[n]);
        at = best[n].1;
    }
    found
}

#[cfg(test)]
mod tests;

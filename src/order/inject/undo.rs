//! What was injected, taken out again.

use crate::core::container::{Container, Mode};
use crate::order::declare::keys;
use crate::order::edit::{Editor, Misfit, Op, Place};
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, SIDECAR, field};
use crate::order::inject::record::{Of, Record};
use crate::order::inject::reorder::reorder;
use crate::order::inject::{hooks, told};
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields of a container that are podgate's doing, those within others first.
const FIELDS: [&str; 7] = ["command", "args", "startupProbe", "volumeMounts", "postStart", "preStop", "lifecycle"];

/// Fields of the Pod, by their names in a record.
fn pod_fields() -> [(&'static str, Place); 4] {
    let metadata = Place::root().to("metadata");
    [
        ("volumes", parts::spec("volumes")),
        ("initContainers", parts::spec("initContainers")),
        ("annotations", metadata.to("annotations")),
        ("metadata", metadata),
    ]
}

/// Takes out what was injected; `None` if nothing was.
pub(super) fn undo(template: &Value) -> Result<Option<Editor>, Vec<Finding>> {
    let Some(record) = Record::read(template)? else { return Ok(None) };
    let findings = changed(template);
    if !findings.is_empty() {
        return Err(findings);
    }
    by(&record, template).map(Some).map_err(|misfit| {
        let what = format!("what podgate has injected can't be taken out: {misfit}");
        let mend = "take the template as it was before it was injected";
        Finding::error("injected-changed", misfit.0, what).mend(mend).into()
    })
}

/// What has been changed by hand so that the original can't be told.
pub(super) fn changed(template: &Value) -> Vec<Finding> {
    let error = |at: Place, what: String| {
        Finding::error("injected-changed", at, what)
            .mend("take the template as it was before it was injected, and change that")
    };
    let sidecar = sidecar(template);
    let Some(told) = sidecar.as_ref().and_then(|(_, sidecar)| told::back(sidecar)) else {
        let at = sidecar.map_or_else(|| parts::annotation(keys::INJECTED), |(at, _)| at);
        let what = "podgate has been injected here, by its annotation, but its sidecar is gone, or does not tell of the containers any more";
        return vec![error(at, what.to_owned())];
    };
    let told: BTreeMap<&str, &Container> = told.iter().map(|told| (told.name.as_str(), told)).collect();
    let list = parts::spec("containers");
    let mut findings = Vec::new();
    for (at, item) in parts::items(template, &list).iter().enumerate() {
        // Another's container, added since; or one that was taken out.
        let Some(told) = parts::name(item).and_then(|name| told.get(name)) else { continue };
        let place = list.to(at);
        let has_gate = || parts::line(item, "command").is_some_and(|words| words.iter().any(|word| word == "--"));
        if told.mode == Mode::Entrypoint && !has_gate() {
            let what = format!("the gate in front of the command of {} has been changed by hand", told.name);
            findings.push(error(place.to("command"), what));
        }
        for (is_told, short) in [(told.mode == Mode::PostStart, "postStart"), (told.pre_stop, "preStop")] {
            if is_told && parts::line(item, short).is_none() {
                let what = format!("podgate's {short} hook of {} has been changed by hand", told.name);
                findings.push(error(field(&place, short), what));
            }
        }
    }
    findings
}

/// The sidecar, and its place.
pub(super) fn sidecar(template: &Value) -> Option<(Place, &Value)> {
    ["initContainers", "containers"].into_iter().find_map(|field| {
        let list = parts::spec(field);
        let mut items = parts::items(template, &list).iter().enumerate();
        items.find(|(_, item)| parts::name(item) == Some(SIDECAR)).map(|(at, item)| (list.to(at), item))
    })
}

fn by(record: &Record, template: &Value) -> Result<Editor, Misfit> {
    let mut editor = Editor::new(template.clone());
    let sidecar = sidecar(template);
    let list = parts::spec("containers");
    let users = parts::items(template, &list).iter();
    let users = users.filter(|item| sidecar.as_ref().is_none_or(|(_, sidecar)| !std::ptr::eq(*item, *sidecar)));
    if let Some((at, _)) = &sidecar {
        editor.edit(at.clone(), Op::Remove)?;
    }
    take_out_volumes(&mut editor, &parts::spec("volumes"))?;
    for (at, item) in users.enumerate() {
        let of = parts::name(item).and_then(|name| record.containers.get(name));
        container(&mut editor, &list.to(at), item, of.unwrap_or(&Of::default()))?;
    }
    order(&mut editor, record)?;
    let chosen = parts::annotation(parts::DEFAULT_CONTAINER);
    if let Some(name) = &record.default_container
        && chosen.of(editor.value()).is_some_and(|value| value == name.as_str())
    {
        editor.edit(chosen, Op::Remove)?;
    }
    editor.edit(parts::annotation(keys::INJECTED), Op::Remove)?;
    for (name, place) in pod_fields() {
        emptied(&mut editor, place.of(template), &place, record.was.get(name))?;
    }
    Ok(editor)
}

/// Removes podgate's volumes, or their mounts, from the end.
fn take_out_volumes(editor: &mut Editor, list: &Place) -> Result<(), Misfit> {
    for at in (0..parts::items(editor.value(), list).len()).rev() {
        if list.to(at).of(editor.value()).is_some_and(parts::is_volume) {
            editor.edit(list.to(at), Op::Remove)?;
        }
    }
    Ok(())
}

/// What has become empty by taking ours out was not there before, or was as the record says.
fn emptied(editor: &mut Editor, injected: Option<&Value>, place: &Place, was: Option<&Value>) -> Result<(), Misfit> {
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let had_something = injected.is_some_and(|value| !is_empty(value));
    let now = place.of(editor.value());
    if had_something && now.is_some_and(is_empty) && now != was {
        restore(editor, place, was)?;
    }
    Ok(())
}

/// Restores the container at `place`; `injected` is that container before any edit.
fn container(editor: &mut Editor, place: &Place, injected: &Value, of: &Of) -> Result<(), Misfit> {
    if let Some(words) = parts::line(injected, "command")
        && let Some(end) = words.iter().position(|word| word == "--")
    {
        let at = place.to("command");
        if end + 1 == words.len() || of.no.contains("command") || of.was.contains_key("command") {
            restore(editor, &at, of.was.get("command"))?;
        } else {
            (0..=end).try_for_each(|_| editor.edit(at.to(0), Op::Remove))?;
        }
        if let Some(args) = of.was.get("args") {
            restore(editor, &place.to("args"), Some(args))?;
        }
    }
    for short in ["startupProbe", "postStart", "preStop"] {
        if let Some(words) = parts::line(injected, short) {
            let within = hooks::within(&words);
            restore(editor, &field(place, short), of.was.get(short).or(within.as_ref()))?;
        }
    }
    take_out_volumes(editor, &place.to("volumeMounts"))?;
    for holder in ["volumeMounts", "lifecycle"] {
        emptied(editor, injected.get(holder), &place.to(holder), of.was.get(holder))?;
    }
    Ok(())
}

/// Sets a field to what it was; removes it if it was not there.
fn restore(editor: &mut Editor, place: &Place, was: Option<&Value>) -> Result<(), Misfit> {
    editor.edit(place.clone(), was.map_or(Op::Remove, |was| Op::Set(was.clone())))
}

/// The containers that the record knows, in their former order; others stay where they are.
fn order(editor: &mut Editor, record: &Record) -> Result<(), Misfit> {
    let list = parts::spec("containers");
    let former: BTreeMap<&str, usize> =
        record.order.iter().enumerate().rev().map(|(at, name)| (name.as_str(), at)).collect();
    let items = parts::items(editor.value(), &list).iter();
    let places: Vec<Option<usize>> = items.map(|item| former.get(parts::name(item)?).copied()).collect();
    let mut wanted: Vec<usize> = (0..places.len()).collect();
    let slots: Vec<usize> = wanted.iter().copied().filter(|at| places[*at].is_some()).collect();
    let mut known = slots.clone();
    known.sort_by_key(|at| places[*at]);
    for (slot, at) in slots.into_iter().zip(known) {
        wanted[slot] = at;
    }
    reorder(editor, &list, &wanted)
}

/// Adds to `record` what undoing `injected` by it would not bring back as it was in `original`. Whether by then it would bring back
/// all of it.
pub(super) fn complete(record: &mut Record, original: &Value, injected: &Value) -> bool {
    // What is within something first, then what holds it, then to see that nothing is missing.
    for _ in 0..3 {
        let Ok(back) = by(record, injected) else { return false };
        let (back, before) = (back.value(), record.clone());
        if back == original {
            return true;
        }
        for (name, place) in pod_fields() {
            if let Some(was) = place.of(original).filter(|was| place.of(back) != Some(was)) {
                record.was.insert(name.to_owned(), was.clone());
            }
        }
        let list = parts::spec("containers");
        let (now, then) = (parts::items(back, &list), parts::items(original, &list));
        for (now, then) in now.iter().zip(then) {
            if let Some(name) = parts::name(then) {
                let of = difference(now, then, record.containers.remove(name).unwrap_or_default());
                if of != Of::default() {
                    record.containers.insert(name.to_owned(), of);
                }
            }
        }
        if *record == before {
            return false;
        }
    }
    false
}

fn difference(now: &Value, then: &Value, mut of: Of) -> Of {
    for short in FIELDS {
        let place = field(&Place::root(), short);
        match (place.of(now), place.of(then)) {
            (now, then) if now == then => {}
            (_, Some(Value::Object(fields))) if short == "lifecycle" && !fields.is_empty() => {}
            (_, Some(then)) => _ = of.was.insert(short.to_owned(), then.clone()),
            (Some(_), None) if short != "lifecycle" => _ = of.no.insert(short.to_owned()),
            (_, None) => {}
        }
    }
    of
}

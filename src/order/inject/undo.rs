//! Removes the injected parts from a template and restores the original fields.

use crate::order::declare::keys;
use crate::order::edit::{Editor, Op, Place};
use crate::order::finding::Finding;
use crate::order::inject::parts::{self, field_place};
use crate::order::inject::record::{ContainerRecord, Record, container_fields, pod_fields};
use crate::order::inject::user_hooks;
use serde_json::Value;
use std::collections::BTreeMap;

/// Removes the injected parts that `template` still has, with its `sidecar`, and restores the original fields.
pub(super) fn restore(record: &Record, sidecar: Option<&(Place, &Value)>, template: &Value) -> Result<Editor, Finding> {
    let mut editor = Editor::new(template.clone());
    let list = Place::spec("containers");
    let users = list.items(template).iter();
    let users = users.filter(|item| sidecar.is_none_or(|(_, sidecar)| !std::ptr::eq(*item, *sidecar)));
    if let Some((at, _)) = sidecar {
        editor.edit(at.clone(), Op::Remove)?;
    }
    remove_own_items(&mut editor, &Place::spec("volumes"))?;
    for (at, item) in users.enumerate() {
        let of = parts::item_name(item).and_then(|name| record.containers.get(name));
        let (place, of) = (list.to(at), of.cloned().unwrap_or_default());
        restore_container(&mut editor, &place, item, &of)?;
    }
    restore_order(&mut editor, record)?;
    let chosen = parts::annotation_place(parts::DEFAULT_CONTAINER_KEY);
    if let Some(name) = &record.default_container
        && chosen.of(editor.value()).is_some_and(|value| value == name.as_str())
    {
        editor.edit(chosen, Op::Remove)?;
    }
    editor.edit(parts::annotation_place(keys::INJECTION_RECORD), Op::Remove)?;
    for (name, place) in pod_fields() {
        restore_if_empty(&mut editor, place.of(template), &place, record.was.get(name))?;
    }
    Ok(editor)
}

/// Removes podgate's volumes, mounts or variables from a list, the last one first, so that the indices remain valid.
fn remove_own_items(editor: &mut Editor, list: &Place) -> Result<(), Finding> {
    let items = list.items(editor.value());
    let own: Vec<usize> = (0..items.len()).rev().filter(|at| parts::is_own_item(&items[*at])).collect();
    own.into_iter().try_for_each(|at| editor.edit(list.to(at), Op::Remove))
}

/// If the removal has emptied a field, restores the original value `was`, or removes the field if `was` is `None`.
fn restore_if_empty(editor: &mut Editor, new: Option<&Value>, at: &Place, was: Option<&Value>) -> Result<(), Finding> {
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let had_something = new.is_some_and(|value| !is_empty(value));
    let now = at.of(editor.value());
    if had_something && now.is_some_and(is_empty) && now != was {
        restore_field(editor, at, was)?;
    }
    Ok(())
}

/// Restores the container at `place`; `item` is the same container before any edit.
fn restore_container(editor: &mut Editor, place: &Place, item: &Value, of: &ContainerRecord) -> Result<(), Finding> {
    let gate = parts::find_gate_separator(item);
    if let Some(("args", end)) = gate {
        // Another webhook has replaced the recorded `command` and `args`. Remove only the gate.
        let words = Place::root().to("args").items(item)[end + 1..].to_vec();
        restore_field(editor, &place.to("args"), Some(&Value::Array(words)))?;
    } else if let Some((_, end)) = gate {
        let at = place.to("command");
        let rest = &Place::root().to("command").items(item)[end + 1..];
        if rest.is_empty() || of.no.contains("command") || of.was.contains_key("command") {
            restore_field(editor, &at, of.was.get("command"))?;
        } else {
            remove_words(editor, &at, end, rest)?;
        }
        if let Some(args) = of.was.get("args") {
            restore_field(editor, &place.to("args"), Some(args))?;
        }
    }
    if let Some(end) = parts::agent_line(item, "readinessProbe").and_then(|own| own.end) {
        let at = Place::root().to("readinessProbe").to("exec").to("command");
        let rest = &at.items(item)[end + 1..];
        remove_words(editor, &place.to("readinessProbe").to("exec").to("command"), end, rest)?;
        for short in ["timeoutSeconds", "initialDelaySeconds"] {
            let (at, was) = (field_place(place, short), of.was.get(short));
            if was.is_some() || short == "timeoutSeconds" && at.of(editor.value()).is_some() {
                restore_field(editor, &at, was)?;
            }
        }
    }
    for short in ["startupProbe", "postStart", "preStop"] {
        if let Some(own) = parts::agent_line(item, short) {
            let within = user_hooks::wrapped_hook(&own.line);
            restore_field(editor, &field_place(place, short), of.was.get(short).or(within.as_ref()))?;
        }
    }
    for list in ["env", "volumeMounts"] {
        remove_own_items(editor, &place.to(list))?;
    }
    for holder in ["env", "volumeMounts", "lifecycle"] {
        restore_if_empty(editor, item.get(holder), &place.to(holder), of.was.get(holder))?;
    }
    Ok(())
}

/// Removes podgate's words from the list at `place`, up to the `--` at index `end`. `rest` contains the words after the
/// `--`.
fn remove_words(editor: &mut Editor, place: &Place, end: usize, rest: &[Value]) -> Result<(), Finding> {
    if end >= parts::WORDS_EDITED_SINGLY_MAX {
        return restore_field(editor, place, Some(&rest.to_vec().into()));
    }
    (0..=end).try_for_each(|_| editor.edit(place.to(0), Op::Remove))
}

/// Sets a field to its original value `was`. Removes the field if `was` is `None`.
fn restore_field(editor: &mut Editor, place: &Place, was: Option<&Value>) -> Result<(), Finding> {
    editor.edit(place.clone(), was.map_or(Op::Remove, |was| Op::Set(was.clone())))
}

/// Restores the original order of the recorded containers. Other containers keep their positions.
fn restore_order(editor: &mut Editor, record: &Record) -> Result<(), Finding> {
    let list = Place::spec("containers");
    let former: BTreeMap<&str, usize> =
        record.order.iter().enumerate().rev().map(|(at, name)| (name.as_str(), at)).collect();
    let items = list.items(editor.value()).iter();
    let places: Vec<Option<usize>> = items.map(|item| former.get(parts::item_name(item)?).copied()).collect();
    let mut wanted: Vec<usize> = (0..places.len()).collect();
    let slots: Vec<usize> = wanted.iter().copied().filter(|at| places[*at].is_some()).collect();
    let mut known = slots.clone();
    known.sort_by_key(|at| places[*at]);
    for (slot, at) in slots.into_iter().zip(known) {
        wanted[slot] = at;
    }
    editor.reorder(&list, &wanted)
}

/// Adds to `record` all data that is needed to restore `original` from `injected`. Returns true if the record then
/// restores `original` exactly.
pub(super) fn complete_record(record: &mut Record, original: &Value, injected: &Value) -> Result<bool, Finding> {
    // The first pass records nested fields, the second pass their parents. The third pass checks the complete record.
    let sidecar = parts::find_sidecar(injected);
    for _ in 0..3 {
        let (back, before) = (restore(record, sidecar.as_ref(), injected)?, record.clone());
        let back = back.value();
        if back == original {
            return Ok(true);
        }
        for (name, place) in pod_fields() {
            if let Some(was) = place.of(original).filter(|was| place.of(back) != Some(was)) {
                record.was.insert(name.to_owned(), was.clone());
            }
        }
        let list = Place::spec("containers");
        let (now, then) = (list.items(back), list.items(original));
        for (now, then) in now.iter().zip(then) {
            if let Some(name) = parts::item_name(then) {
                let of = add_differences(now, then, record.containers.remove(name).unwrap_or_default());
                if of != ContainerRecord::default() {
                    record.containers.insert(name.to_owned(), of);
                }
            }
        }
        if *record == before {
            return Ok(false);
        }
    }
    Ok(false)
}

fn add_differences(now: &Value, then: &Value, mut of: ContainerRecord) -> ContainerRecord {
    for short in container_fields() {
        let place = field_place(&Place::root(), short);
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

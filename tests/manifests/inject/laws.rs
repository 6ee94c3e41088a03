//! Property tests: rules that `inject` and `uninject` must follow for every Pod.

use super::pods::{anything, template};
use super::{check_injection, lines, options};
use podgate::order::declare::Publish;
use podgate::order::edit::{PathSegment, Place};
use podgate::order::finding::Level;
use podgate::order::inject::{Options, inject, uninject, wants_injection};
use podgate::order::lint::{self, Target};
use podgate::order::migrate::migrate_kruise;
use podgate::order::plan::{ImageCommand, KnownFacts, plan};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const CASES: u32 = 200;

fn cases() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

/// Adds every place in a value to `found`, beginning with the root.
fn places(value: &Value, at: &Place, found: &mut Vec<Place>) {
    found.push(at.clone());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| places(value, &at.to(key.as_str()), found)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| places(value, &at.to(index), found)),
        _ => {}
    }
}

fn put(value: &mut Value, at: &Place, new: Value) {
    let mut here = value;
    for step in &at.0 {
        here = match step {
            PathSegment::Key(key) => &mut here[key.as_ref()],
            PathSegment::Index(index) => &mut here[*index],
        };
    }
    *here = new;
}

#[test]
fn inject_is_idempotent_and_reversible() {
    let (injected, reasons) = (Cell::new(0), RefCell::new(BTreeMap::<&str, u32>::new()));
    TestRunner::new(cases())
        .run(&template(), |template| {
            if check_injection(&template, &options(), &KnownFacts::default()).is_some_and(|done| !done.edits.is_empty())
            {
                injected.set(injected.get() + 1);
            } else if let Err(found) = inject(&template, &options(), &KnownFacts::default()) {
                assert!(found.iter().any(|finding| finding.level == Level::Error), "{}", lines(&found));
                assert!(found.iter().all(|finding| finding.rule != "not-reversible"), "{template:#}");
                found.iter().for_each(|finding| *reasons.borrow_mut().entry(finding.rule).or_default() += 1);
            }
            Ok(())
        })
        .unwrap();
    let (injected, reasons) = (injected.get(), reasons.borrow());
    assert!(injected > CASES / 3, "only {injected} of {CASES} templates were injected: {reasons:?}");
}

/// For each condition, the sidecar has a source in its list, or the plan names the condition.
#[test]
fn every_condition_has_a_proof_or_is_named() {
    let (proven, named) = (Cell::new(0), Cell::new(0));
    TestRunner::new(ProptestConfig { cases: 2 * CASES, ..cases() })
        .run(&(template(), prop::bool::weighted(0.2)), |(mut template, is_board)| {
            if is_board && let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
                annotations.insert("podgate.io/publish".to_owned(), json!("board"));
            }
            let Ok(done) = inject(&template, &options(), &KnownFacts::default()) else { return Ok(()) };
            let (Some(plan), true) = (done.plan, !done.edits.is_empty()) else { return Ok(()) };
            let list = super::written::sidecar_containers(&done.value);
            for until in list.iter().flat_map(|entry| &entry.until) {
                let entry = list.iter().find(|entry| entry.name == until.container).expect("in the list");
                let is_named = plan.unprovable_conditions.contains(&until.to_string());
                assert_eq!(entry.needs_kubelet_status(until.want), is_named, "{until}: {template:#}");
                let count = if is_named { &named } else { &proven };
                count.set(count.get() + 1);
            }
            let warns = done.findings.iter().any(|finding| finding.rule == "known-by-kubelet");
            assert_eq!(warns, !plan.unprovable_conditions.is_empty(), "{}", lines(&done.findings));
            assert!(plan.publish == Publish::Api || plan.unprovable_conditions.is_empty());
            Ok(())
        })
        .unwrap();
    assert!(proven.get() > 100 && named.get() > 0, "{} proven, {} named", proven.get(), named.get());
}

#[test]
fn image_commands_are_kept_by_later_injections() {
    let images = ["db", "api", "web", "log", "migrate", "x-1"].map(|name| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        (
            name.to_owned(),
            ImageCommand {
                entrypoint: words(&["/entry", "$(X)", "$$"]),
                cmd: words(&["serve"]),
                ..ImageCommand::default()
            },
        )
    });
    let known = KnownFacts { images: images.into(), ..KnownFacts::default() };
    let injected = Cell::new(0);
    TestRunner::new(ProptestConfig { cases: CASES / 2, ..cases() })
        .run(&template(), |template| {
            if let Some(done) = check_injection(&template, &options(), &known) {
                let later = inject(&done.value, &options(), &KnownFacts::default())
                    .expect("the second injection keeps the image commands");
                assert!(later.edits.is_empty(), "{:?}", later.edits);
                injected.set(injected.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(injected.get() > CASES / 8, "only {} templates were injected", injected.get());
}

#[test]
fn reinjection_applies_new_options_and_annotations() {
    let other =
        Options { has_fixed_user: false, image_pull_policy: Some("Always".to_owned()), ..Options::new("other:2") };
    let compared = Cell::new(0);
    TestRunner::new(ProptestConfig { cases: CASES / 2, ..cases() })
        .run(&(template(), template()), |(mut template, another)| {
            let Ok(first) = inject(&template, &options(), &KnownFacts::default()) else { return Ok(()) };
            let mut changed = first.value.clone();
            template["metadata"]["annotations"]["podgate.io/timeout"] = json!("17m");
            changed["metadata"]["annotations"]["podgate.io/timeout"] = json!("17m");
            template["metadata"]["labels"] = another["metadata"]["labels"].clone();
            changed["metadata"]["labels"] = another["metadata"]["labels"].clone();
            if !wants_injection(&template) {
                return Ok(());
            }
            let fresh = inject(&template, &other, &KnownFacts::default()).map_err(|found| lines(&found));
            let updated = inject(&changed, &other, &KnownFacts::default());
            let updated = updated.inspect(|updated| {
                let mut applied = changed.clone();
                updated.edits.iter().for_each(|edit| {
                    podgate::order::edit::apply(&mut applied, edit).expect("each edit can be applied")
                });
                assert_eq!(applied, updated.value);
            });
            let updated = updated.map_err(|found| lines(&found));
            match (fresh, updated) {
                (Ok(fresh), Ok(updated)) => {
                    assert_eq!(fresh.value, updated.value);
                    compared.set(compared.get() + 1);
                }
                (fresh, updated) => assert_eq!(fresh.is_err(), updated.is_err()),
            }
            Ok(())
        })
        .unwrap();
    assert!(compared.get() > CASES / 8, "only {} templates were compared", compared.get());
}

#[test]
fn malformed_templates_cause_no_panic() {
    let odd = (template(), proptest::collection::vec((any::<prop::sample::Index>(), anything()), 1..3));
    let rejected = Cell::new(0);
    TestRunner::new(cases())
        .run(&(odd, any::<bool>()), |((template, changes), after)| {
            // Replace one or two values in the template, before or after the injection.
            let mut broken = if after {
                inject(&template, &options(), &KnownFacts::default()).map_or(template, |done| done.value)
            } else {
                template
            };
            for (index, new) in changes {
                let mut all = Vec::new();
                places(&broken, &Place::root(), &mut all);
                let at = all[index.index(all.len())].clone();
                put(&mut broken, &at, new);
            }
            let outcome = inject(&broken, &options(), &KnownFacts::default());
            if let Err(found) = &outcome {
                assert!(found.iter().any(|finding| finding.level == Level::Error));
                rejected.set(rejected.get() + 1);
            }
            if !after {
                check_injection(&broken, &options(), &KnownFacts::default());
            }
            let _ = uninject(&broken);
            let _ = lint::check_handwritten(&broken);
            if let Ok(plan) = plan(&broken, &KnownFacts::default()) {
                let target = Target { kubernetes: "1.34".parse().ok(), workload: Some(&broken["spec"]) };
                let _ = lint::check_planned(&broken, &plan, target);
            }
            let _ = migrate_kruise(&broken);
            Ok(())
        })
        .unwrap();
    let rejected = rejected.get();
    assert!(rejected > CASES / 5, "only {rejected} of {CASES} templates were rejected");
}

//! Tests that `inject` writes correct templates for all kinds of Pods, and that `uninject` restores the originals.

mod by_hand;
mod conditions;
mod corpus;
mod expected;
mod foreign;
mod init_containers;
mod laws;
mod outdated;
mod pods;
mod probes;
mod refusals;
mod resources;
mod written;

use podgate::order::edit::{Editor, apply};
use podgate::order::inject::{Injected, Options, inject, uninject};
use podgate::order::plan::KnownFacts;
use serde_json::Value;

const IMAGE: &str = "ghcr.io/podgate/podgate:test";

fn options() -> Options {
    Options::new(IMAGE)
}

fn lines(findings: &[podgate::order::finding::Finding]) -> String {
    findings.iter().map(|finding| format!("{}: {finding}\n", finding.rule)).collect()
}

/// Injects a template. Fails if `inject` rejects the template.
fn injected(template: &Value) -> Injected {
    inject(template, &options(), &KnownFacts::default())
        .unwrap_or_else(|found| panic!("{}\n{template:#}", lines(&found)))
}

/// Injects a template. Returns `None` if `inject` rejects the template. Checks that the injection is idempotent and
/// reversible.
fn check_injection(template: &Value, options: &Options, known: &KnownFacts) -> Option<Injected> {
    let once = inject(template, options, known).ok()?;
    let mut applied = template.clone();
    for edit in &once.edits {
        apply(&mut applied, edit).unwrap_or_else(|error| panic!("{error}: {edit:?}\n{template:#}"));
    }
    assert_eq!(applied, once.value, "the edits must give the value");
    let twice =
        inject(&once.value, options, known).unwrap_or_else(|found| panic!("{}\n{:#}", lines(&found), once.value));
    assert_eq!((&twice.value, twice.edits.len()), (&once.value, 0), "a second injection must change nothing");
    let back = uninject(&once.value).unwrap_or_else(|found| panic!("{}\n{:#}", lines(&found), once.value));
    assert_eq!(back.value, *template, "uninject must restore the original");
    let mut undone = Editor::new(once.value.clone());
    for edit in back.edits {
        undone.edit(edit.at, edit.op).expect("each edit can be applied");
    }
    assert_eq!(undone.value(), template, "the edits of uninject must give its value");
    Some(once)
}

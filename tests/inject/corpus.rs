//! Manifests of our own writing that do what people's charts do, each injected and taken back.
//!
//! `corpus/` is read by the tests of the text layer too. What is to become of a file, if not that it is injected, stands here.

use crate::{holds, lines, options};
use podgate::order::inject::{inject, is_requested};
use podgate::order::plan::KnownImages;
use podgate::order::pod_templates;
use serde_json::Value;
use std::fs;

/// Can't be injected, with the rule that says so.
const REFUSED: [(&str, &str); 4] = [
    ("ephemeral.yaml", "ephemeral-containers"),
    ("hook-refused.yaml", "own-post-start"),
    ("name-taken.yaml", "name-taken"),
    ("windows.yaml", "windows"),
];
/// Declare nothing, or want nothing.
const UNTOUCHED: [&str; 2] = ["disabled.yaml", "not-declared.yaml"];

fn folder() -> String {
    format!("{}/tests/inject/corpus", env!("CARGO_MANIFEST_DIR"))
}

/// The documents of a file, as Kubernetes reads them.
pub(crate) fn documents(file: &str) -> Vec<Value> {
    let path = format!("{}/{file}", folder());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(&text, options).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Pod templates of a file.
pub(crate) fn templates(file: &str) -> Vec<Value> {
    let of = |document: &Value| {
        let found = pod_templates::templates(document).into_iter().map(|template| template.place);
        found.map(|place| place.of(document).unwrap_or_else(|| panic!("{file}: {place}")).clone()).collect::<Vec<_>>()
    };
    documents(file).iter().flat_map(of).collect()
}

/// The names of all files.
pub(crate) fn files() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the corpus");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Each template that can be injected, as it was, and injected.
pub(crate) fn each_injected(mut with: impl FnMut(&str, &Value, &Value)) {
    for file in files() {
        for template in templates(&file) {
            if let Ok(done) = inject(&template, &options(), &KnownImages::default())
                && !done.edits.is_empty()
            {
                with(&file, &template, &done.value);
            }
        }
    }
}

#[test]
fn every_manifest_comes_through() {
    let mut injected = 0;
    for file in files() {
        let refused = REFUSED.iter().find(|(name, _)| *name == file);
        let mut touched = 0;
        for template in templates(&file) {
            match (inject(&template, &options(), &KnownImages::default()), refused) {
                (Err(found), Some((_, rule))) => {
                    assert!(found.iter().any(|f| f.rule == *rule), "{file}: {}", lines(&found))
                }
                (Ok(_), Some(_)) => panic!("{file} can be injected"),
                (Err(found), None) => panic!("{file}: {}", lines(&found)),
                (Ok(done), None) => {
                    holds(&template, &options(), &KnownImages::default()).expect("it can be injected");
                    assert_eq!(!done.edits.is_empty(), is_requested(&template), "{file}");
                    touched += usize::from(!done.edits.is_empty());
                }
            }
        }
        assert_eq!(touched > 0, refused.is_none() && !UNTOUCHED.contains(&file.as_str()), "{file}");
        injected += usize::from(touched > 0);
    }
    assert!(injected >= 40, "only {injected} manifests are injected");
}

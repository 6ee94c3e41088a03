//! Fuzzes `inject` and `uninject` with arbitrary files. The output must parse to the intended value. Injecting twice
//! must give the same result as injecting once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::edit::Edit;
use podgate::order::inject::{self, Injected, Options};
use podgate::order::plan::KnownFacts;
use podgate::order::pod_templates;
use serde_json::Value;

// The YAML reader is part of the plugin's binary. Other packages cannot import a binary.
#[allow(dead_code, unused_imports, reason = "the plugin uses all of it")]
#[path = "../../src/bin/kubectl-podgate/yaml/mod.rs"]
mod manifest;

use manifest::{Document, Source};

/// Applies `change` to the document's templates. Returns the new text and the number of edits, or `None` if an edit is
/// rejected.
fn changed(document: &Document, change: impl Fn(&Value) -> Option<Injected>) -> Option<(String, usize)> {
    let mut edits = Vec::new();
    for pod_templates::Template { place, .. } in pod_templates::templates(&document.value) {
        let injected = change(place.of(&document.value)?)?;
        edits.extend(injected.edits.into_iter().map(|edit| Edit { at: place.join(&edit.at), ..edit }));
    }
    let count = edits.len();
    // `edited` itself checks that the new text parses to the intended value.
    document.edited(&edits).ok().map(|text| (text, count))
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source = Source::parse("fuzz", text.to_owned());
    let options = Options::new("podgate:fuzz");
    for document in source.documents.iter().filter(|document| document.text.len() < 1 << 16) {
        let inject = |template: &Value| inject::inject(template, &options, &KnownFacts::default()).ok();
        let Some((once, count)) = changed(document, inject) else { continue };
        if count == 0 {
            assert_eq!(once, document.text);
            continue;
        }
        let again = Source::parse("fuzz", once.clone());
        assert!(again.errors().next().is_none(), "unreadable output");
        let [again] = &again.documents[..] else { panic!("one document became several") };
        if let Some((twice, _)) = changed(again, inject) {
            assert_eq!(twice, again.text);
        }
        let _ = changed(again, |template| inject::uninject(template).ok());
    }
});

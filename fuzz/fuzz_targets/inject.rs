//! Any file through `inject` and `uninject`: what is written is read as it was meant, and injecting twice is injecting once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::edit::Edit;
use podgate::order::inject::{self, Injected, Options};
use podgate::order::kinds;
use podgate::order::plan::Known;
use serde_json::Value;

// The reader belongs to the tool's binary, which no other package can name.
#[allow(dead_code, reason = "the tool uses all of it")]
#[path = "../../src/bin/kubectl-podgate/yaml/mod.rs"]
mod manifest;

use manifest::{Document, Source};

/// The document's text after `change` of its templates, and how many there were to change; `None` where that is refused.
fn changed(document: &Document, change: impl Fn(&Value) -> Option<Injected>) -> Option<(String, usize)> {
    let mut edits = Vec::new();
    for kinds::Template { place, .. } in kinds::templates(&document.value) {
        let injected = change(place.of(&document.value)?)?;
        edits.extend(injected.edits.into_iter().map(|edit| Edit { at: place.join(&edit.at), ..edit }));
    }
    let count = edits.len();
    // That the text is read as it was meant is looked at within.
    document.edited(&edits).ok().map(|text| (text, count))
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(source) = Source::parse("fuzz", text.to_owned()) else { return };
    let options = Options::new("podgate:fuzz");
    for document in source.documents.iter().filter(|document| document.text.len() < 1 << 16) {
        let inject = |template: &Value| inject::inject(template, &options, &Known::default()).ok();
        let Some((once, count)) = changed(document, inject) else { continue };
        if count == 0 {
            assert_eq!(once, document.text);
            continue;
        }
        let again = Source::parse("fuzz", once.clone()).expect("what was written is read");
        let [again] = &again.documents[..] else { panic!("one document has become several") };
        if let Some((twice, _)) = changed(again, inject) {
            assert_eq!(twice, again.text);
        }
        let _ = changed(again, |template| inject::uninject(template).ok());
    }
});

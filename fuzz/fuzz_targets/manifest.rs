//! Any file as a manifest: cut, read, its places found. Nothing panics, nothing is lost, each place is in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::edit::Place;
use podgate::order::kinds;
use serde_json::Value;

// The reader belongs to the tool's binary, which no other package can name.
#[allow(dead_code, reason = "the tool uses all of it")]
#[path = "../../src/bin/kubectl-podgate/yaml/mod.rs"]
mod manifest;

use manifest::{Document, Source};

fn walk(document: &Document, value: &Value, place: &Place) {
    if let Some(span) = document.span(place) {
        assert!(document.text.get(span.clone()).is_some(), "{place}: {span:?}");
    }
    let mark = document.mark(place);
    assert!(document.text.get(mark.clone()).is_some() && document.position(mark.start).line >= document.line);
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(document, item, &place.to(index));
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(document, value, &place.to(key.as_str()));
            }
        }
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Source::parse("fuzz", text.to_owned()) {
        Err(fault) => assert!(!fault.what.is_empty()),
        Ok(source) => {
            assert_eq!(source.with(&[]), text);
            for document in &source.documents {
                // Each place costs a way through the document: what is larger than any manifest says nothing new.
                if document.text.len() < 4096 {
                    walk(document, &document.value, &Place::root());
                }
                let _ = kinds::templates(&document.value);
            }
        }
    }
});

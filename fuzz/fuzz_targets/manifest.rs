//! Fuzzes the manifest reader with arbitrary files: splits and parses each file, and locates its fields. The reader
//! must not panic or lose text, and all positions must be valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podgate::order::edit::Place;
use podgate::order::pod_templates;
use serde_json::Value;
use std::collections::BTreeMap;

// The YAML reader is part of the plugin's binary. Other packages cannot import a binary.
#[allow(dead_code, unused_imports, reason = "the plugin uses all of it")]
#[path = "../../src/bin/kubectl-podgate/yaml/mod.rs"]
mod manifest;

use manifest::{Document, Source};

fn walk(document: &Document, value: &Value, place: &Place) {
    if let Some(span) = document.span(place) {
        assert!(document.text.get(span.clone()).is_some(), "{place}: {span:?}");
    }
    let mark = document.highlight(place);
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
    let source = Source::parse("fuzz", text.to_owned());
    assert_eq!(source.with_replaced(&BTreeMap::new()), text);
    for (document, error) in source.errors() {
        assert!(!error.message.is_empty() && document.text.is_char_boundary(error.offset), "{error:?}");
    }
    for document in &source.documents {
        // Skip large documents: each lookup walks the whole document, which takes long and finds no more errors.
        if document.text.len() < 4096 {
            walk(document, &document.value, &Place::root());
        }
        let _ = pod_templates::templates(&document.value);
    }
});

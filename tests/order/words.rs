//! Tests of the readers of single words: image references, and container names with a typing error.

use podgate::order::declare::nearest::nearest;
use podgate::order::release::{parse_image, sidecar_image};

#[test]
fn finds_only_similar_words() {
    let known = ["db", "cache", "migrate", "api"];
    for (word, found) in [
        ("dB", Some("db")),
        ("dbb", Some("db")),
        ("cahce", Some("cache")),
        ("migrat", Some("migrate")),
        ("imgrate", Some("migrate")),
        ("ipa", None),
        ("web", None),
        ("", None),
        ("databasemigration", None),
    ] {
        assert_eq!(nearest(word, known), found, "{word}");
    }
}

#[test]
fn image_references_are_checked() {
    let digest = format!("r.example/p:1@sha256:{}", "0a".repeat(32));
    let good = "podgate a/b_c:1.0 localhost:5000/a/b:V1_x [::1]:5000/a R.example/p";
    for text in good.split(' ').chain([digest.as_str(), &sidecar_image()]) {
        assert_eq!(parse_image(text).as_deref(), Ok(text));
    }
    let bad = "A a: a:b:c a//b /a a/ a@sha256:1 a@ -a https://a/b a:-x ü";
    for text in bad.split(' ').chain(["", " ", "a b", "a\n"]) {
        assert!(parse_image(text).is_err(), "{text:?}");
    }
}

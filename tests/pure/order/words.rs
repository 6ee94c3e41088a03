//! Tests of functions for single words: image references, container names with a typing error, and dollar signs.

use podgate::order::declare::nearest::nearest;
use podgate::order::dollars::{escape, unescape};
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
    let bad = "a: a//b /a a/ a@ -a https://a/b ü a#b a\"b";
    for text in bad.split(' ').chain(["", " ", "a b", "a\n"]) {
        assert!(parse_image(text).is_err(), "{text:?}");
    }
}

/// Expands `text` as Kubernetes does (`third_party/forked/golang/expansion`), without any variables.
fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' && rest.peek() == Some(&'$') {
            rest.next();
        }
    }
    out
}

#[test]
fn kubernetes_expansion_reverses_the_escape() {
    for text in ["", "$", "$$", "$$$", "$x", "$(X)", "$$(X)", "a$$b$(C)$", "sh -c echo $HOME", "$x $(X)"] {
        let escaped = escape(text);
        assert_eq!((expand(&escaped).as_str(), unescape(&escaped).as_str()), (text, text));
        assert!(!escaped.replace("$$", "").contains("$("), "{text}");
    }
    assert_eq!(escape("echo $HOME"), "echo $HOME");
}

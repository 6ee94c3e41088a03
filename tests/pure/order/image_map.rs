//! Tests of the file of `--images`.

use podgate::order::image_map::{commands, find_by_name_or_digest, parse};
use serde_json::json;

#[test]
fn entry_matches_the_same_text_or_digest() {
    let (old, new) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
    let file = json!({
        "redis:7": {"digest": old, "cmd": ["redis-server"]},
        "example.com:5000/own": {"entrypoint": ["/own"]},
        "by@sha256:0": {"cmd": ["/by"]},
    });
    let images = parse(file.to_string().as_bytes()).unwrap();
    for (image, expected) in [
        ("redis:7".to_owned(), Some("redis-server")),
        ("example.com:5000/own".to_owned(), Some("/own")),
        ("by@sha256:0".to_owned(), Some("/by")),
        (format!("redis:7@{old}"), Some("redis-server")),
        (format!("redis@{old}"), Some("redis-server")),
        (format!("mirror.example/redis:7@{old}"), Some("redis-server")),
        (format!("redis:7@{new}"), None),
        (format!("redis@{new}"), None),
        ("redis".to_owned(), None),
        ("redis:8".to_owned(), None),
        ("docker.io/library/redis:7".to_owned(), None),
        ("example.com:5000/own:1".to_owned(), None),
        ("by@sha256:1".to_owned(), None),
        ("by".to_owned(), None),
        (String::new(), None),
    ] {
        let found = find_by_name_or_digest(&images, &image).map(|command| command.escaped_words(false).concat());
        assert_eq!(found.as_deref(), expected, "{image}");
    }
    let pod = json!({"spec": {"containers": [
        {"name": "a", "image": "redis:7"}, {"name": "b", "image": "redis:8"}, {"name": "c"}, {"image": "redis:7"}, null,
    ]}});
    assert_eq!(commands(&images, &pod).into_keys().collect::<Vec<_>>(), ["a"]);
    assert!(commands(&images, &json!({"spec": {"containers": 1}})).is_empty());
}

/// A Pod can have 200 containers (`CONTAINERS_MAX`) with the same image, and each would get its own copy of a long
/// command.
#[test]
fn webhook_ignores_commands_that_are_too_long() {
    let file = json!({
        "long": {"cmd": ["x".repeat(15 << 10)]}, "longer": {"cmd": ["x".repeat(16 << 10)]},
        "many": {"cmd": vec!["/x"; 600]}, "more": {"cmd": vec![""; 700]},
    });
    let images = parse(file.to_string().as_bytes()).unwrap();
    let containers = ["long", "longer", "many", "more"].map(|image| json!({"name": image, "image": image}));
    let found = commands(&images, &json!({"spec": {"containers": containers}}));
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["long", "many"]);
}

#[test]
fn mistakes_in_the_file_are_errors_with_a_place() {
    for (text, what) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("redis:7: {}", "expected value at line 1 column 1"),
        ("[]", "invalid type: sequence, expected a map at line 1 column 0"),
        ("null", "invalid type: null, expected a map at line 1"),
        ("{\"a\": {}", "EOF while parsing an object at line 1 column 8"),
        ("{\"a\": {}} {}", "trailing characters at line 1 column 11"),
        ("{\"a\": null}", "invalid type: null, expected an object with entrypoint, cmd and digest at line 1 column 10"),
        ("{\"a\": {\"cmd\": \"x\"}}", "invalid type: string \"x\", expected a sequence at line 1"),
        ("{\"a\": {\"cmd\": [1]}}", "invalid type: integer `1`, expected a string at line 1"),
        ("{\"a\": {\"digest\": null}}", "invalid type: null, expected a string at line 1"),
        (
            "{\"a\": {\"command\": []}}",
            "unknown field `command`, expected one of `entrypoint`, `cmd`, `digest` at line 1",
        ),
        ("{\"a\": {\"cmd\": [], \"cmd\": []}}", "duplicate field `cmd` at line 1"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.starts_with(what), "{text}: {error}");
        assert!(error.ends_with("; write the file with kubectl podgate resolve-images"), "{text}: {error}");
        assert!(!error.contains('\n'), "{text}: {error}");
    }
    assert!(parse(b"\xff{}").is_err());
    assert!(parse(b" {}\n").unwrap().is_empty());
}

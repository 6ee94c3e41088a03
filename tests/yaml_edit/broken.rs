//! Tests of failures: one line with the position on standard error, and nothing on standard output.

use crate::{POD, run, write};

#[test]
fn syntax_errors_have_a_position() {
    for (text, expected) in [
        ("a: 1\na: 2\n", "<stdin>:2:1: duplicate mapping key: a"),
        ("a: 1\n---\nb: {{ .Values.b }}\n", "<stdin>:3:"),
        ("a: 1\n--- {b: 1}\n", "<stdin>:2:1: invalid document separator: only a comment"),
        ("%YAML 1.1\n---\na: 1\n", "<stdin>:1:1: Kubernetes rejects documents with a directive"),
        ("a:\n\t- b\n", "<stdin>:2:"),
        ("a: *b\n", "<stdin>:1:4: "),
        ("a: [\n", "<stdin>:1:4: unclosed"),
        ("{\"a\": 1}}\n", "<stdin>:1:9: "),
    ] {
        let run = run(&["inject", "-"], &format!("{text}---\n{POD}"));
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{text:?}");
        assert!(run.err.contains(expected) && run.err.lines().count() == 1, "{text:?}: {}", run.err);
    }
}

#[test]
fn invalid_orders_have_a_position_and_a_fix() {
    let run = run(&["inject", "-"], &POD.replace("db, api", "db, apo"));
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let line = run.err.lines().find(|line| line.contains("error")).unwrap();
    assert!(line.starts_with("<stdin>:7:27: error: ") && line.contains("apo"), "{line}");
    assert!(!run.err.contains("injected"), "{}", run.err);
}

#[test]
fn all_errors_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.yaml", "a: ["), ("b.yaml", POD), ("c.yaml", "a: {")] {
        write(folder.path(), name, text);
    }
    let run = run(&["inject", folder.path().to_str().unwrap()], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("a.yaml:") && run.err.contains("c.yaml:"), "{}", run.err);
}

#[test]
fn uninject_rejects_manual_changes_of_injected_parts() {
    let out = crate::done(&["inject", "-"], POD);
    let changed = out.replace("[/podgate/bin/podgate, entrypoint,", "[/podgate/bin/podgate, entrypoint, --and-more,");
    assert_ne!(out, changed);
    let run = run(&["uninject", "-"], &changed.replace("\"--\", postgres", "postgres").replace("\"--\", /api", "/api"));
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains("<stdin>:"), "{}", run.err);
}

#[test]
fn usage_errors_exit_with_64() {
    for arguments in [
        &["inject"][..],
        &["inject", "-", "--in-place"],
        &["inject", "x", "--in-place", "--check"],
        &["inject", "x", "--in-place", "--diff"],
        &["inject", "x", "--from", "helm"],
        &["inject", "x", "--from", "compose"],
        &["inject", "x", "--platform", "linux/arm64"],
        &["inject", "x", "--resolve-images", "--platform", "linux"],
        &["inject", "x", "--image-pull-policy", "Sometimes"],
        &["uninject", "x", "--image", "y"],
    ] {
        let run = run(arguments, "");
        assert_eq!((run.code, run.out.as_str()), (64, ""), "{arguments:?}");
        assert!(!run.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn messages_strip_terminal_escape_sequences() {
    let name = "\\u001b[31m\\u202e";
    let run = run(&["inject", "-"], &POD.replace("name: shop", &format!("name: \"{name}\"")));
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("[31m") && !run.err.contains(['\u{1b}', '\u{202e}']), "{:?}", run.err);
}

#[test]
fn deep_and_huge_input_fails_quickly() {
    let bomb: String = std::iter::once("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned())
        .chain((1..12).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))))
        .collect();
    for text in [
        bomb,
        "[".repeat(1 << 20),
        "{".repeat(1 << 20),
        "- ".repeat(1 << 19),
        "{\"a\":".repeat(1 << 18),
        "a: |\n".repeat(1 << 16),
    ] {
        let run = run(&["inject", "-"], &text);
        assert!(run.code == 1 && run.err.lines().count() == 1, "{}", run.err);
    }
}

//! Tests of failures: one line with the position on standard error, and nothing on standard output.

use super::{POD, run, write};

#[test]
fn syntax_errors_have_a_position() {
    for (text, expected) in [
        ("a: 1\na: 2\n", "<stdin>:2:1: error: duplicate mapping key: a; remove one of the two keys"),
        (
            "b: {{ .Values.b }}\n",
            "<stdin>:1:5: error: this is a Helm template; check or inject the output of `helm template`",
        ),
        ("{{- if .Values.b }}\nb: 1\n", "<stdin>:1:3: error: this is a Helm template; "),
        ("a: 1\n--- {b: 1}\n", "<stdin>:2:1: error: invalid document separator: only a comment"),
        ("a: |\n-----BEGIN KEY-----\n", "<stdin>:2:1: error: invalid document separator"),
        ("---a: 1\n", "<stdin>:1:1: error: invalid document separator"),
        ("x: 1\n--- |\n", "<stdin>:2:1: error: invalid document separator"),
        ("%YAML 1.1\n", "error: invalid YAML"),
        ("a:\n\t- b\n", "<stdin>:2:2: error: a tab indents this line; indent it with spaces"),
        ("a:\n  b: [c,\n\td]\n", "<stdin>:3:2: error: a tab indents this line; indent it with spaces"),
        ("a:\n  b: 'c\n\td'\n", "<stdin>:3:1: error: a tab indents this line; indent it with spaces"),
        ("a:\n  b: 'c\n  d'\n", "<stdin>:3:3: error: this line belongs to a quoted text, but is not indented deeper"),
        ("a: *b\n", "<stdin>:1:4: error: no anchor above matches this alias"),
        ("a: [\n", "<stdin>:1:4: error: unclosed [; add the closing bracket"),
        ("{\"a\": 1}}\n", "<stdin>:1:9: error: this bracket closes nothing"),
        ("? \n: 1\n", "<stdin>:2:1: error: a key is empty"),
        ("[a]: 1\n", "<stdin>:1:1: error: a key is a list or an object"),
        ("a: b: c\n", "<stdin>:1:5: error: no key is allowed here"),
        ("a: !!int b\n", "<stdin>:1:10: error: the value does not fit its tag"),
    ] {
        let run = run(&["inject", "-"], &format!("{text}# podgate.io/\n---\n{POD}"));
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{text:?}");
        assert!(run.err.contains(expected) && run.err.lines().count() == 1, "{text:?}: {}", run.err);
    }
}

/// Podgate cannot parse these documents, although Kubernetes can parse some of them. Documents without podgate's keys
/// declare no order, so podgate passes them on unchanged.
#[test]
fn unreadable_documents_without_podgates_keys_keep_their_bytes() {
    for text in [
        "a:\n  b: 'c\n  d'\n",
        "a:\n  b: 'c\n\td'\n",
        "a:\n  b: [c,\n\td]\n",
        "a: {{ .Values.b }}\n",
        "a: 1\na: 2\n",
        "{{- if .Values.b }}\r\na: 1\r\n{{- end }}\r\n",
    ] {
        let run = run(&["inject", "-"], &format!("{text}---\n{POD}---\n{text}"));
        assert_eq!(run.code, 0, "{text:?}: {}", run.err);
        let (head, tail) = (format!("{text}---\n"), format!("---\n{text}"));
        assert!(run.out.starts_with(&head) && run.out.ends_with(&tail), "{}", run.out);
        assert!(run.out.contains("initContainers:"), "{}", run.out);
        let line = "note: ignored 2 unreadable documents without \"podgate.io\" or in a chart's templates, the first: <stdin>:";
        assert!(run.err.starts_with(line), "{}", run.err);
        assert_eq!(super::done(&["uninject", "-q", "-"], &run.out), format!("{text}---\n{POD}---\n{text}"));
    }
    let bad_separator = "a: 1\n--- {b: 1}\n";
    assert_eq!(super::done(&["inject", "-"], bad_separator), bad_separator);
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (write(directory.path(), "a.yaml", "a: [\n"), write(directory.path(), "b.yaml", "b: 1\n"));
    assert_eq!(super::done(&["inject", &a, &b], ""), "---\na: [\n---\nb: 1\n");
    // With --from, every document may have another tool's order, so podgate must parse every document.
    let run = run(&["inject", "--from", "kruise", &a], "");
    assert!(run.code == 1 && run.err.contains("a.yaml:1:4: error: unclosed ["), "{}", run.err);
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
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("a.yaml", "# podgate.io\na: ["), ("b.yaml", POD), ("c.yaml", "# podgate.io\na: {")] {
        write(directory.path(), name, text);
    }
    let run = run(&["inject", directory.path().to_str().unwrap(), "/nonexistent"], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("a.yaml:") && run.err.contains("c.yaml:"), "{}", run.err);
    assert!(run.err.contains("/nonexistent: error: cannot read: no such file\n"), "{}", run.err);
}

#[test]
fn uninject_rejects_manual_changes_of_injected_parts() {
    let out = super::done(&["inject", "-"], POD);
    let changed = out.replace("[/podgate/bin/podgate, entrypoint,", "[/podgate/bin/podgate, entrypoint, --and-more,");
    assert_ne!(out, changed);
    let run = run(&["uninject", "-"], &changed.replace("\"--\", \"/api\"", "\"/api\""));
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains("<stdin>:"), "{}", run.err);
}

#[test]
fn usage_errors_exit_with_64() {
    for arguments in [
        &["inject"][..],
        &["inject", "-", "--in-place"],
        &["inject", "-", "-o", "yaml"],
        &["inject", "x", "--in-place", "--check"],
        &["inject", "x", "--in-place", "--diff"],
        &["inject", "x", "--from", "helm"],
        &["inject", "x", "--platform", "linux/arm64"],
        &["inject", "x", "--resolve-images", "--platform", ""],
        &["inject", "x", "--resolve-images", "--platform", "linux"],
        &["inject", "x", "--resolve-images", "--platform", "linux/"],
        &["inject", "x", "--resolve-images", "--platform", "/amd64"],
        &["inject", "x", "--resolve-images", "--platform", "linux/arm/"],
        &["inject", "x", "--resolve-images", "--platform", "a/b/c/d"],
        &["inject", "x", "--image-pull-policy", "Sometimes"],
        &["inject", "x", "--image", "Not An Image"],
        &["inject", "x", "--sidecar-resources", "cpu=10m"],
        &["uninject", "x", "--image", "y"],
    ] {
        let run = run(arguments, "");
        assert_eq!((run.code, run.out.as_str()), (64, ""), "{arguments:?}");
        assert!(!run.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn pipe_needs_no_argument() {
    assert_eq!(super::done(&["inject", "-q"], POD), super::done(&["inject", "-q", "-"], POD));
    assert!(run(&["check"], POD).err.starts_with("note: reading the manifest from standard input\n"));
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
        let run = run(&["inject", "-"], &format!("# podgate.io\n{text}"));
        assert!(run.code == 1 && run.err.lines().count() == 1, "{}", run.err);
    }
}

//! Tests of errors: positions in long lines, the same errors in `check` and `inject`, and one format.

use super::{CHAIN, check, file, program};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

#[test]
fn positions_in_long_lines_are_printed_once() {
    let padding = "ü".repeat(700);
    for (before, after) in [("", ""), ("", &*padding), (&*padding, ""), (&*padding, &*padding)] {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations":
            {"x": before, "podgate.io/order": "a, zz", "y": after}}, "spec": {"containers": [{"name": "a", "command": ["a"]}]}});
        let (directory, _) = file(&object.to_string());
        let (_, out, _) = check(&directory, &["-o", "json", "pod.yaml"]);
        let column = serde_json::from_str::<Value>(&out).unwrap()["findings"][0]["column"].clone();
        let (_, out, _) = check(&directory, &["-q", "pod.yaml"]);
        let shown: Vec<&str> = out.lines().filter(|line| line.contains("-->")).collect();
        assert_eq!(shown, [format!(" --> pod.yaml:1:{column}")], "{out}");
    }
}

/// Returns `LINE:COLUMN rule` of each error that `inject` prints.
fn inject_errors(directory: &TempDir) -> Vec<String> {
    let output = program(directory.path()).current_dir(directory.path()).args(["inject", "pod.yaml"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let errors = text.lines().filter_map(|line| line.strip_prefix("pod.yaml:")?.split_once(": error: "));
    errors.map(|(at, rest)| format!("{at} {}", rest.rsplit('[').next().unwrap().trim_end_matches(']'))).collect()
}

fn check_errors(directory: &TempDir) -> Vec<String> {
    let (_, out, _) = check(directory, &["-o", "json", "pod.yaml"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let errors = json["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "error");
    errors.map(|one| format!("{}:{} {}", one["line"], one["column"], one["rule"].as_str().unwrap())).collect()
}

#[test]
fn inject_reports_the_errors_of_check_in_the_same_order() {
    // Podgate reads the order before the stop order, and labels before annotations. This text has the reverse sequence.
    let broken = CHAIN.replace(
        "        podgate.io/order: \"db, api & cache, web\"\n",
        "        podgate.io/stop-order: dbb\n        podgate.io/order: \"db, apii, wep\"\n        podgate.io/timeout: 300\n      \
         labels: {podgate.io/mode: hold}\n",
    );
    for text in [broken.clone(), format!("{broken}---\n{CHAIN}---\n{broken}")] {
        let (directory, _) = file(&text);
        let found = inject_errors(&directory);
        assert!(found.len() >= 5, "{found:?}");
        assert_eq!(found, check_errors(&directory));
    }
}

#[test]
fn layouts_that_inject_cannot_edit_are_reported() {
    let pod =
        |volumes: &str| CHAIN.replace("      containers:\n", &format!("      volumes:{volumes}\n      containers:\n"));
    let gate = |api: &str| CHAIN.replace("{name: api, command: [api],", api);
    for (text, is_editable) in [
        (pod("\n        - # from a template"), true),
        (pod("").replace("volumes:", "? volumes\n      : - name: x  # ours\n          emptyDir: {}"), false),
        (pod("\n        -"), true),
        (pod(" []"), true),
        (pod(" [{name: a, emptyDir: {}}]"), true),
        (gate("{name: api, command: [api  # the program\n        ],"), true),
        (gate("{name: api, startupProbe:  # slow\n        {tcpSocket: {port: 1}}, command: [api],"), true),
    ] {
        let (directory, _) = file(&text);
        let found = check_errors(&directory);
        assert_eq!(found, inject_errors(&directory), "{text}");
        assert_eq!(!found.iter().any(|one| one.ends_with("not-editable")), is_editable, "{found:?} {text}");
    }
}

/// Errors of clap and of the commands start with the same text. Errors in a manifest start with their place.
#[test]
fn errors_have_one_format() {
    let (directory, _) = file(&CHAIN.replace("web\"", "wep\""));
    fs::write(directory.path().join("bad.yaml"), "podgate.io/order: [\n").unwrap();
    for (arguments, expected) in [
        (&["inject"][..], "error: the following required"),
        (&["inject", "--image", "A B", "pod.yaml"], "error: invalid value"),
        (&["inject", "-i", "-"], "error: --in-place cannot"),
        (&["inject", "pod.yaml"], "pod.yaml:8:45: error: "),
        (&["inject", "bad.yaml"], "bad.yaml:1:19: error: unclosed ["),
        (&["uninject", "bad.yaml"], "bad.yaml:1:19: error: unclosed ["),
        (&["inject", "none.yaml"], "none.yaml: error: cannot read"),
        (&["check", "--kubernetes", "x", "pod.yaml"], "error: invalid value"),
        (&["check", "--strict", "none.json"], "error: no order declared"),
        (&["status", "-n", "x", "p"], "error: "),
        (&["timeline", "p"], "error: "),
        (&["override", "p"], "error: "),
        (&["override", "p", "a=Ready", "--remove"], "error: "),
        (&["try", "bad.yaml"], "bad.yaml:1:19: error: unclosed ["),
        (&["try", "pod.yaml"], "pod.yaml:8:45: error: "),
        (&["try", "--break", "x@nothing"], "error: "),
        (&["try", "--break", "nothing@crash"], "error: "),
    ] {
        let output = program(directory.path()).current_dir(directory.path()).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(expected) && !output.status.success(), "{arguments:?}: {text}");
    }
}

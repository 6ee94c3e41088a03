//! Manifests that do what people's charts do (`tests/inject/corpus`), through `inject` and back through `uninject`, as bytes.

use crate::{done, keeps_lines, run};
use serde_json::Value;
use std::fs;

/// Can't be injected.
const REFUSED: [&str; 4] = ["ephemeral.yaml", "hook-refused.yaml", "name-taken.yaml", "windows.yaml"];

/// Where a value was replaced, and came back: the same value, written anew (a hook in flow style, an alias, an empty null).
const WRITTEN_ANEW: [&str; 12] = [
    "anchors.yaml",
    "deployment-three-tiers.yaml",
    "hooks-exec.yaml",
    "hooks-http.yaml",
    "hooks-sleep.yaml",
    "nulls.yaml",
    "probes-exec.yaml",
    "probes-grpc.yaml",
    "probes-http.yaml",
    "probes-odd.yaml",
    "service-mesh.yaml",
    "statefulset-postgres.yaml",
];

fn corpus() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inject/corpus");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(Result::unwrap)
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() >= 40, "{}", files.len());
    files
}

fn values(text: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options).unwrap()
}

#[test]
fn there_and_back_again() {
    let mut same = 0;
    for (file, text) in corpus() {
        let there = run(&["inject", "-"], &text);
        assert_eq!(there.code, i32::from(REFUSED.contains(&file.as_str())), "{file}: {}", there.err);
        if there.code == 1 {
            assert!(there.out.is_empty() && there.err.contains("error: "), "{file}: {}", there.err);
            continue;
        }
        assert_eq!(done(&["inject", "-"], &there.out), there.out, "{file}: injected twice");
        let back = done(&["uninject", "-"], &there.out);
        if WRITTEN_ANEW.contains(&file.as_str()) {
            assert_ne!(back, text, "{file} comes back byte for byte: take it out of the list");
            assert_eq!(values(&back), values(&text), "{file}");
        } else {
            assert_eq!(back, text, "{file}");
            same += 1;
        }
    }
    assert!(same >= 35, "{same}");
}

#[test]
fn comments_and_what_is_not_replaced_stay() {
    // What inject replaces, or may: commands, hooks, probes, empty collections, what moves or is shared.
    const MAY_GO: [&str; 13] =
        ["command", "args", "- ", "postStart", "preStop", "Probe", "exec", "{", "[", "*", "<<", "null", "httpGet"];
    for (file, text) in
        corpus().into_iter().filter(|(file, _)| file.ends_with("yaml") && !REFUSED.contains(&file.as_str()))
    {
        let out = done(&["inject", "-q", "-"], &text);
        let comments: String =
            text.lines().filter(|line| line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect();
        for comment in comments.lines() {
            assert!(out.contains(comment), "{file}: {comment:?} is gone");
        }
        if file == "comments.yaml" {
            keeps_lines(&text, &out, &MAY_GO);
        }
    }
}

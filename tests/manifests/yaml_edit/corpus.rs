//! Runs `inject` and then `uninject` on realistic manifests (`tests/manifests/inject/corpus`), and compares the bytes.

use super::{assert_lines_kept, done, run};
use serde_json::Value;
use std::fs;

/// Manifests that `inject` rejects.
const REJECTED: [&str; 3] = ["hook-refused.yaml", "name-taken.yaml", "windows.yaml"];

/// Manifests that `uninject` restores with the same values in another layout. The causes are an alias, an empty null,
/// and unusual quotes and lists in a hook or probe.
const REFORMATTED: [&str; 7] = [
    "anchors.yaml",
    "hooks-exec.yaml",
    "hooks-http.yaml",
    "nulls.yaml",
    "probes-exec.yaml",
    "probes-odd.yaml",
    "statefulset-postgres.yaml",
];

fn corpus() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests/inject/corpus");
    let mut files: Vec<(String, String)> = fs::read_dir(directory)
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
fn uninject_restores_the_original() {
    let mut same = 0;
    for (file, text) in corpus() {
        let injected = run(&["inject", "-"], &text);
        assert_eq!(injected.code, i32::from(REJECTED.contains(&file.as_str())), "{file}: {}", injected.err);
        if injected.code == 1 {
            assert!(injected.out.is_empty() && injected.err.contains("error: "), "{file}: {}", injected.err);
            continue;
        }
        assert_eq!(done(&["inject", "-"], &injected.out), injected.out, "{file}: a second inject changed it");
        let restored = done(&["uninject", "-"], &injected.out);
        if REFORMATTED.contains(&file.as_str()) {
            assert_ne!(restored, text, "{file} has the same bytes: remove it from REFORMATTED");
            assert_eq!(values(&restored), values(&text), "{file}");
        } else {
            assert_eq!(restored, text, "{file}");
            same += 1;
        }
    }
    assert!(same >= 39, "{same}");
}

#[test]
fn inject_keeps_comments_and_other_lines() {
    // `inject` may replace these lines: commands, hooks, probes, empty collections, moved and shared values.
    const MAY_CHANGE: [&str; 13] =
        ["command", "args", "- ", "postStart", "preStop", "Probe", "exec", "{", "[", "*", "<<", "null", "httpGet"];
    for (file, text) in
        corpus().into_iter().filter(|(file, _)| file.ends_with("yaml") && !REJECTED.contains(&file.as_str()))
    {
        let out = done(&["inject", "-q", "-"], &text);
        let comments: String =
            text.lines().filter(|line| line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect();
        for comment in comments.lines() {
            assert!(out.contains(comment), "{file}: {comment:?} is missing");
        }
        if file == "comments.yaml" {
            assert_lines_kept(&text, &out, &MAY_CHANGE);
        }
    }
}

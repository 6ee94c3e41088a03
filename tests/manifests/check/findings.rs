//! Findings of `kubectl podgate check` in public manifests that declare no order.

use super::program;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Rules that need no order.
const RULES: [&str; 5] =
    ["hook-awaits-itself", "job-never-completes", "native-not-awaited", "probe-on-loopback", "shell-wait"];

/// Compares the findings of `check` with `findings.tsv`. The columns of the file are repository, commit, file, rule,
/// container with the field of a probe, a reader's judgment of the finding, and the reason for the judgment.
#[test]
#[ignore = "needs the repositories: make suggestions"]
fn recorded_findings_of_public_manifests() {
    let directory = std::env::var_os("PODGATE_SUGGESTIONS").expect("PODGATE_SUGGESTIONS=DIRECTORY");
    let mut files: BTreeMap<[&str; 3], BTreeSet<(&str, &str)>> = BTreeMap::new();
    for row in include_str!("findings.tsv").lines() {
        let [repository, commit, path, rule, container, "right" | "wrong", _] = row.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{row}")
        };
        files.entry([repository, commit, path]).or_default().insert((rule, container));
    }
    let home = tempfile::tempdir().unwrap();
    for ([repository, commit, path], expected) in files {
        let git = Path::new(&directory).join(repository);
        let manifest =
            Command::new("git").arg("-C").arg(git).args(["show", &format!("{commit}:{path}")]).output().unwrap();
        assert!(manifest.status.success(), "{path}: {}", String::from_utf8_lossy(&manifest.stderr));
        let output = program(home.path()).args(["check", "-o", "json", "-"]).write_stdin(manifest.stdout).output();
        let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let found = report["findings"].as_array().unwrap().iter();
        let found: Vec<&Value> = found.filter(|finding| RULES.contains(&finding["rule"].as_str().unwrap())).collect();
        assert_eq!(found.len(), expected.len(), "{repository}/{path}: {found:#?}");
        for (rule, container) in expected {
            let is_here = |finding: &&&Value| {
                let text = format!("{} {}", finding["message"], finding["place"]);
                finding["rule"] == rule && container.split(' ').all(|word| text.contains(word))
            };
            assert_eq!(found.iter().filter(is_here).count(), 1, "{repository}/{path}: {rule} {container}: {found:#?}");
        }
    }
}

//! Compares the results for a few files of the corpus with the readable files in `expected/`.

use super::corpus::templates;
use super::{lines, options};
use podgate::order::inject::inject;
use podgate::order::plan::KnownFacts;
use std::fs;

const SHOWN: [&str; 8] = [
    "without-sidecar.yaml",
    "deployment-three-tiers.yaml",
    "deployment-images-alone.yaml",
    "job-with-a-proxy.yaml",
    "hold.yaml",
    "conditions.yaml",
    "hooks-exec.yaml",
    "without-token-and-hooks.yaml",
];

#[test]
fn injected_manifests_match_the_expected_files() {
    let regenerate = std::env::var_os("PODGATE_REGENERATE").is_some();
    for file in SHOWN {
        let template = templates(file).remove(0);
        let done = inject(&template, &options(), &KnownFacts::default())
            .unwrap_or_else(|found| panic!("{file}: {}", lines(&found)));
        // Replace the version, which occurs only in the record of the injection.
        let version = format!("\\\"version\\\":\\\"{}\\\"", env!("CARGO_PKG_VERSION"));
        let text = serde_json::to_string_pretty(&done.value).expect("JSON") + "\n";
        assert_eq!(text.matches(&version).count(), 1, "{file}");
        let text = text.replace(&version, "\\\"version\\\":\\\"VERSION\\\"");
        // Remove the digest, which changes whenever another part of the text changes.
        let (before, after) = text.split_once(",\\\"digest\\\":\\\"").expect("a digest");
        let text = [before, &after["01234567\\\"".len()..]].concat();
        let path = format!(
            "{}/tests/manifests/inject/expected/{}",
            env!("CARGO_MANIFEST_DIR"),
            file.replace(".yaml", ".json")
        );
        if regenerate {
            fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        } else {
            let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(
                text == expected,
                "{path} differs; regenerate it with PODGATE_REGENERATE=1 and review it with git diff"
            );
        }
    }
}

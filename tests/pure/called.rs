//! Tests that no script and no ignored test of the repository is left without a caller.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the files below the directories, with paths relative to the root.
fn files(directories: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), directories.iter().map(PathBuf::from).collect::<Vec<_>>());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&directory)).unwrap().map(Result::unwrap) {
            let path = directory.join(entry.file_name());
            if entry.path().is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

fn is_script(path: &Path) -> bool {
    fs::metadata(Path::new(ROOT).join(path)).unwrap().permissions().mode() & 0o111 != 0
}

/// Returns the text of a file without the comment lines.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_script_has_a_caller() {
    let files = files(&[".ci", "bench", "demo", "fuzz/fuzz_targets", "krew", "tests", "tools"]);
    let is_caller = |path: &&PathBuf| is_script(path) || path.extension().is_some_and(|end| end == "rs" || end == "sh");
    let callers = files.iter().filter(is_caller).cloned().chain(["Makefile".into()]);
    let callers: Vec<(PathBuf, String)> = callers.map(|path| (path.clone(), code(&path))).collect();
    let mut scripts: Vec<&PathBuf> = files.iter().filter(|path| is_script(path)).collect();
    // Skip this script. Contributors run it by hand: it is the whole check of a change (CONTRIBUTING.md).
    scripts.retain(|path| path != &Path::new(".ci/run"));
    assert!(scripts.len() > 15, "{scripts:?}");
    for script in scripts {
        let name = script.file_name().unwrap().to_str().unwrap();
        let directory = script.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let calls = |(caller, text): &(PathBuf, String)| {
            let from_its_directory = caller.parent() == script.parent() && text.contains(&format!("$here/{name}"));
            caller != script && (text.contains(&format!("{directory}/{name}")) || from_its_directory)
        };
        assert!(callers.iter().any(calls), "nothing calls {}", script.display());
    }
}

/// The reason of an ignored test ends with `make TARGET`, which runs the test.
#[test]
fn each_ignored_test_names_its_make_target() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let mut seen = 0;
    for path in
        files(&["bench", "src", "tests"]).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"))
    {
        for attribute in fs::read_to_string(Path::new(ROOT).join(&path))
            .unwrap()
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("#[ignore"))
        {
            let target = attribute.rsplit_once(": make ").and_then(|(_, target)| target.strip_suffix("\"]"));
            let recipe = target.and_then(|target| makefile.split_once(&format!("\n{target}: "))).map(|(_, rest)| rest);
            let recipe = recipe.and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
            let runs = recipe.contains("-- --ignored") || recipe.contains("tests/kubelet/run");
            assert!(runs, "{}: no make target runs tests with {attribute}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} ignored tests");
}

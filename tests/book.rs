//! The pages: each whole manifest on them is one that `check` finds no fault with and `inject` takes, and each command of
//! `kubectl podgate` has flags that are there. The tutorial's commands are run on a real kubelet (`tests/kubelet`).

use assert_cmd::cargo::cargo_bin;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// The fenced blocks of `language`, each with the number of its first line.
fn blocks(page: &str, language: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(word)) => open = Some((word.trim() == language, number + 2, String::new())),
            (Some(_), Some(_)) => {
                let (wanted, first, text) = open.take().unwrap();
                if wanted {
                    found.push((first, text));
                }
            }
            (Some((_, _, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

fn tool(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(cargo_bin!("kubectl-podgate"))
        .args(arguments)
        .env("KUBECONFIG", "/nonexistent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn each_manifest_on_the_pages_can_be_checked_and_injected() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, manifest) in blocks(&text, "yaml") {
            let is_whole = |key: &str| manifest.lines().any(|line| line.starts_with(key));
            if !(is_whole("apiVersion:") && is_whole("kind:")) {
                continue;
            }
            for arguments in [["check", "-"], ["inject", "-"]] {
                let output = tool(&arguments, &manifest);
                let said =
                    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{}:{line}: {arguments:?}: {said}", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} manifests");
}

#[test]
fn each_command_on_the_pages_has_flags_that_are_there() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, script) in blocks(&text, "sh") {
            for command in script.replace("\\\n", " ").split(['\n', '|', ';']) {
                let Some((_, rest)) = command.split_once("kubectl podgate ") else { continue };
                let rest = rest.split(" #").next().unwrap();
                let mut words = rest.split_whitespace();
                let name = words.next().unwrap();
                let help = tool(&[name, "--help"], "");
                assert!(help.status.success(), "{}:{line}: no command {name}", page.display());
                let help = String::from_utf8(help.stdout).unwrap();
                for flag in words.filter(|word| word.starts_with('-') && *word != "-") {
                    let flag = flag.split('=').next().unwrap();
                    let listed = help.split([' ', ',', '\n', '=', '[']).any(|word| word == flag);
                    assert!(listed, "{}:{line}: {name} has no {flag}", page.display());
                }
                seen += 1;
            }
        }
    }
    assert!(seen >= 10, "{seen} commands");
}

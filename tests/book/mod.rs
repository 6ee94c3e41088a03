//! Tests of the documentation pages. `check` and `inject` must accept each complete manifest, and each command that
//! needs no cluster must work. `tests/kubelet/pages` runs the other commands on a real kubelet. `tests/registry` runs
//! the commands that need a registry.

mod commands;
pub(crate) mod page;
mod rules;
pub(crate) mod shell;

use assert_cmd::cargo::cargo_bin;
use page::Page;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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
fn check_and_inject_accept_each_manifest() {
    let mut seen = 0;
    // Skip docs/rules.md: half of its manifests are wrong on purpose. `rules` tests that page.
    let pages = Page::all().into_iter().filter(|page| page.name != rules::PAGE);
    for manifest in pages.flat_map(|page| page.blocks("yaml")) {
        let is_whole = |key: &str| manifest.text.lines().any(|line| line.starts_with(key));
        if !(is_whole("apiVersion:") && is_whole("kind:")) {
            continue;
        }
        for arguments in [["check", "-"], ["inject", "-"]] {
            let output = tool(&arguments, &manifest.text);
            let output_text =
                String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{}: {arguments:?}: {output_text}", manifest.at);
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} manifests");
}

/// Each manifest of `docs/recipes` has a section of the page that shows its annotations. `check` finds neither an error
/// nor a warning in it.
#[test]
fn each_recipe_is_on_the_page() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recipes");
    let sections = Page::read("docs/recipes.md").sections("## ");
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let manifest = fs::read_to_string(format!("{directory}/{name}")).unwrap();
        for arguments in [["check", "--strict", "-"].as_slice(), &["inject", "-"]] {
            let output = tool(arguments, &manifest);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let link = format!("](recipes/{name})");
        let section = sections.iter().find(|(_, section)| section.lines().any(|line| line.contains(&link)));
        let (_, section) = section.unwrap_or_else(|| panic!("docs/recipes.md has no section with a link to {name}"));
        let [block] = &section.blocks("yaml")[..] else { panic!("{name}: needs one example") };
        let is_annotation = |line: &&str| line.contains("podgate.io/");
        let trimmed = |text: &str| text.lines().filter(is_annotation).map(|line| line.trim().to_owned()).collect();
        let [shown, declared]: [Vec<String>; 2] = [trimmed(&block.text), trimmed(&manifest)];
        assert_eq!(shown, declared, "{}: differs from {name}", block.at);
        seen += 1;
    }
    assert_eq!(seen, 8, "recipes");
}

/// Users copy examples into flow syntax, where YAML cuts a list without quotes at its first comma.
#[test]
fn each_list_is_in_quotes() {
    let mut faults = Vec::new();
    for page in Page::all() {
        for line in page.lines() {
            let Some((key, value)) = line.split_once(": ").filter(|(key, _)| key.contains("podgate.io/")) else {
                continue;
            };
            let is_plain = key.trim_start().starts_with(|first: char| first.is_ascii_alphabetic())
                && !key.trim_start().contains(' ')
                && !value.trim_start().starts_with(['"', '\'']);
            if is_plain && value.contains(',') {
                faults.push(format!("{}: {line}", page.name));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_command_uses_existing_flags() {
    let mut seen = 0;
    for script in Page::all().iter().flat_map(|page| [page.blocks("sh"), page.in_tables()].concat()) {
        for command in script.text.replace("\\\n", " ").split(['\n', '|', ';']) {
            let Some((_, rest)) = command.split_once("kubectl podgate ") else { continue };
            let rest = rest.split(" #").next().unwrap();
            let mut words = rest.split_whitespace();
            let name = words.next().unwrap();
            let help = tool(&[name, "--help"], "");
            assert!(help.status.success(), "{}: there is no command {name}", script.at);
            let help = String::from_utf8(help.stdout).unwrap();
            for flag in words.filter(|word| word.starts_with('-') && *word != "-") {
                let flag = flag.split('=').next().unwrap();
                let listed = help.split([' ', ',', '\n', '=', '[']).any(|word| word == flag);
                assert!(listed, "{}: {name} has no flag {flag}", script.at);
            }
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} commands");
}

/// Each row of the tables names the tests that prove it.
#[test]
fn each_test_on_the_page_about_shared_objects_exists() {
    let mut sources = String::new();
    let mut directories =
        ["tests", "src"].map(|directory| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(directory)).to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension().is_some_and(|extension| extension == "rs") {
                true => sources += &fs::read_to_string(entry).unwrap(),
                false if entry.is_dir() => directories.push(entry),
                false => {}
            }
        }
    }
    let page = Page::read("docs/shared-objects.md");
    let rows = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.rsplit('|').nth(1));
    let names: Vec<&str> = rows.flat_map(|tests| tests.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}

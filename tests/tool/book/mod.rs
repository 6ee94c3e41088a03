//! Tests of the documentation pages. `check` and `inject` must accept each complete manifest, and each command that
//! needs no cluster must work. `tests/kubelet/pages` runs the other commands on a real kubelet. `tests/tool/registry`
//! runs the commands that need a registry.

mod commands;
pub(crate) mod page;
mod readme;
mod rules;
pub(crate) mod shell;

use assert_cmd::cargo::cargo_bin;
use page::Page;
use std::collections::BTreeSet;
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
    for manifest in Page::all().iter().flat_map(|page| page.blocks("yaml")) {
        let is_whole = |key: &str| manifest.text.lines().any(|line| line.starts_with(key));
        if !(is_whole("apiVersion:") && is_whole("kind:")) {
            continue;
        }
        // With --strict, a manifest without an order is an error.
        let is_ordered = manifest.text.contains("podgate.io/order");
        let check: &[&str] = if is_ordered { &["check", "--strict", "-"] } else { &["check", "-"] };
        for arguments in [check, &["inject", "-"]] {
            let output = tool(arguments, &manifest.text);
            let output_text =
                String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{}: {arguments:?}: {output_text}", manifest.at);
        }
        seen += 1;
    }
    assert!(seen >= 8, "{seen} manifests");
}

/// Each manifest of `docs/recipes` has a section on the page, which shows the manifest's annotations. `check` finds
/// neither an error nor a warning in the manifest.
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
    assert_eq!(seen, 15, "recipes");
}

#[test]
fn the_tutorial_shows_its_file() {
    let file = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tutorial.yaml")).unwrap();
    assert_eq!(Page::read("docs/tutorial.md").blocks("yaml")[0].text, file);
}

/// The first manifest of the page is what `inject` writes today. `PODGATE_REGENERATE=1` in the environment updates it.
#[test]
fn the_injected_pod_is_current() {
    let done = |command: &str, manifest: &str| {
        let output = tool(&[command, "-q", "-"], manifest);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = Page::read("docs/in-the-pod.md");
    let shown = &page.blocks("yaml")[0].text;
    let injected = done("inject", &done("uninject", shown));
    let parts = ["name: podgate\n", "entrypoint, --container, api,", "PODGATE_HOLD", "podgate-api"];
    assert!(parts.iter().all(|part| injected.contains(part)), "{injected}");
    if std::env::var_os("PODGATE_REGENERATE").is_some() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(&page.name);
        fs::write(&path, fs::read_to_string(&path).unwrap().replace(shown, &injected)).unwrap();
        return;
    }
    assert_eq!(*shown, injected, "{} is out of date; run this test with PODGATE_REGENERATE=1", page.name);
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

/// Pages with blocks of commands, and the tests that run these blocks.
const RUN_BY: &[(&str, &str)] = &[
    ("README.md", "readme_commands_work_as_written"),
    ("docs/in-the-pod.md", "documented_commands_about_a_pod_work"),
    ("docs/inject.md", "commands_on_the_page_about_inject_work"),
    ("docs/install.md", "readme_commands_work_as_written"),
    ("docs/try.md", "commands_on_the_page_about_try_work"),
    ("docs/tutorial.md", "tutorial_works_as_written_alone"),
    ("docs/webhook.md", "readme_commands_work_as_written"),
];

/// Blocks that no test runs as they are: page, start of the block, and reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "make ", "the targets of `make`"),
    ("README.md", "export REGISTRY=", "`make dockerfile` builds the images without a registry"),
    ("docs/development.md", "tests/kubelet/prepare\n", "the commands for developers"),
    ("docs/install.md", "PODGATE_IMAGE_REGISTRY=", "the targets of `make`"),
    ("docs/install.md", "VERSION=", "the release workflow and `make release-rehearsal` verify a release"),
    ("docs/install.md", "helm ", "`helm_commands_render_the_chart` only renders the chart with these values"),
    ("docs/webhook.md", "helm ", "`helm_commands_render_the_chart` only renders the chart with these values"),
];

#[test]
fn each_block_of_commands_is_run_or_an_exception() {
    let sources = sources();
    let (mut exceptions, mut pages) = (BTreeSet::new(), BTreeSet::new());
    for page in Page::all() {
        for block in page.blocks("sh") {
            let is_it = |(name, start, _): &(&str, &str, &str)| *name == page.name && block.text.starts_with(start);
            if let Some(exception) = NOT_RUN.iter().position(is_it) {
                exceptions.insert(exception);
                continue;
            }
            let test = RUN_BY.iter().find(|(name, _)| *name == page.name);
            let (name, test) = test.unwrap_or_else(|| panic!("no test runs {}: {}", block.at, block.text));
            pages.insert(*name);
            let runs = |text: &String| text.contains(&format!("fn {test}(")) && text.contains(&format!("\"{name}\""));
            assert!(sources.iter().any(runs), "no test {test} reads {name}");
        }
    }
    assert_eq!(pages.len(), RUN_BY.len(), "{pages:?}");
    assert_eq!(exceptions.len(), NOT_RUN.len(), "some exceptions match no block: only {exceptions:?} do");
}

/// Returns the text of each Rust file in `tests` and `src`.
fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    let mut directories =
        ["tests", "src"].map(|directory| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(directory)).to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension().is_some_and(|extension| extension == "rs") {
                true => sources.push(fs::read_to_string(entry).unwrap()),
                false if entry.is_dir() => directories.push(entry),
                false => {}
            }
        }
    }
    sources
}

/// Each row of these tables names its tests in one column. The column number counts from the right.
#[test]
fn each_test_that_a_table_names_exists() {
    let sources = sources().concat();
    for (page, column, least) in [("tests/shared-objects.md", 1, 40), ("docs/security.md", 2, 20)] {
        let page = Page::read(page);
        let rows = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.rsplit('|').nth(column));
        let names = rows.flat_map(|tests| tests.split('`').skip(1).step_by(2));
        let names: Vec<&str> = names.filter(|name| name.contains('_') && !name.contains(['/', '.'])).collect();
        assert!(names.len() > least, "{names:?}");
        assert_all_exist(&names, &sources);
    }
}

fn assert_all_exist(names: &[&str], sources: &str) {
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "there is no test {name}");
    }
}

//! Tests that the documentation matches the program.

use super::program;
use podgate::order::declare::keys;
use podgate::order::lint::rules::RULES;
use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

#[test]
fn every_rule_in_the_code_is_listed_with_its_level() {
    fn walk(directory: &Path, found: &mut Vec<(&str, String)>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else if entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.ends_with(".rs") && !name.ends_with("tests.rs"))
            {
                let text = fs::read_to_string(entry.path()).unwrap();
                // Skip the tests at the end of the file, because tests may contain any rule name.
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                for level in ["error", "warning", "note"] {
                    for rest in text.split(&format!("Finding::{level}(")).skip(1) {
                        let name = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
                        found.extend(name.filter(|(name, _)| *name != "x").map(|(name, _)| (level, name.to_owned())));
                    }
                }
            }
        }
    }
    let mut named = Vec::new();
    for directory in ["src/order", "src/bin/kubectl-podgate"] {
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut named);
    }
    assert!(named.len() > 30);
    let page = read("docs/rules.md");
    for (level, name) in named {
        assert!(RULES.iter().any(|rule| rule.name == name), "{name} is not in src/order/lint/rules.rs");
        let section = page.split("\n### ").find_map(|section| section.strip_prefix(&format!("{name}\n\n*")));
        let levels = section.and_then(|section| section.split('*').next()).unwrap_or_default();
        assert!(levels.split(" or ").any(|listed| listed == level), "docs/rules.md: {name} can be {level}");
    }
}

#[test]
fn docs_explain_every_annotation() {
    let text = read("docs/declaring.md");
    let keys = keys::POD_KEYS.iter().map(|key| (*key).to_owned());
    for key in keys
        .chain(keys::CONTAINER_PREFIXES.iter().map(|prefix| format!("{prefix}CONTAINER")))
        .chain([keys::INJECT_LABEL.to_owned()])
    {
        assert!(text.contains(&format!("`{key}`")), "docs/declaring.md does not explain {key}");
    }
}

/// Examples that declare an order must have no errors and no warnings.
#[test]
fn examples_in_the_docs_pass_the_check() {
    let mut checked = 0;
    for file in ["docs/declaring.md", "docs/check.md"] {
        for block in read(file).split("```yaml\n").skip(1) {
            let (yaml, _) = block.split_once("\n```").unwrap();
            if !yaml.contains("kind:") || yaml.starts_with("# wrong") || !yaml.contains("podgate.io/") {
                continue;
            }
            let output = program(Path::new("/")).args(["check", "-"]).write_stdin(yaml.to_owned()).output().unwrap();
            let out = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && out.contains("checked: 0 errors, 0 warnings"), "{file}:\n{yaml}\n{out}");
            checked += 1;
        }
    }
    assert!(checked >= 4, "only {checked} examples");
}

/// The page shows parts of the outputs in `tests/tool/screens`, and the order that `suggest` proposes for its example.
#[test]
fn outputs_on_the_page_are_real() {
    let page = read("docs/check.md");
    let blocks = |language: &str| -> Vec<&str> {
        let start = format!("```{language}\n");
        page.split(&start).skip(1).map(|rest| rest.split("```\n").next().unwrap_or_default()).collect()
    };
    let (texts, manifests) = (blocks("text"), blocks("yaml"));
    let ([finding, forecast, suggested], [manifest]) = (&texts[..], &manifests[..]) else { panic!("{page}") };
    for (screen, shown) in [("check-finding", finding), ("check-forecast", forecast)] {
        let screen = read(&format!("tests/tool/screens/{screen}.txt"));
        assert!(screen.contains(*shown), "{screen}\ndocs/check.md:\n{shown}");
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("shop.yaml"), manifest).unwrap();
    let output = program(directory.path()).current_dir(directory.path()).args(["suggest", "shop.yaml"]).output();
    assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), *suggested);
}

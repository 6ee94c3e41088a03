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
    for (level, name) in named {
        let rule = RULES.iter().find(|rule| rule.name == name);
        let rule = rule.unwrap_or_else(|| panic!("{name} is not in src/order/lint/rules.rs"));
        assert!(rule.levels.iter().any(|listed| listed.as_str() == level), "{name} can be {level}");
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

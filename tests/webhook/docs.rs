//! Tests that `docs/webhook.md` matches the program.

use crate::install::run;
use crate::page::Page;
use crate::program::{Files, Webhook};
use std::collections::BTreeSet;
use std::fs;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/webhook.md");

#[test]
fn help_is_short_or_long_and_in_its_file() {
    crate::help::check_help(env!("CARGO_BIN_EXE_podgate-webhook"));
}

/// The chart must have a template for each value that the pages set. `tests/kubelet/admission` installs the chart.
#[test]
fn helm_commands_render_the_chart() {
    let blocks = ["docs/install.md", "docs/webhook.md"].map(|page| Page::read(page).blocks("sh")).concat();
    let commands: Vec<&str> =
        blocks.iter().map(|block| block.text.as_str()).filter(|text| text.starts_with("helm ")).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let (_, rest) = command.split_once("charts/podgate").unwrap();
        let words =
            rest.split_whitespace().filter(|word| !["\\", "--create-namespace", "--reuse-values"].contains(word));
        let arguments: Vec<&str> = ["template", "podgate", "charts/podgate"].into_iter().chain(words).collect();
        let Some(output) = run("helm", &arguments) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        for value in arguments.iter().filter_map(|word| word.split_once('=')).map(|(_, value)| value) {
            assert!(text.contains(value), "{command}: {value} has no effect: {text}");
        }
    }
}

#[test]
fn metrics_table_is_complete_and_current() {
    let docs = fs::read_to_string(DOCS).unwrap();
    let cells = docs.lines().filter_map(|line| line.strip_prefix("| `podgate_webhook_"));
    let name = |text: &str| {
        text.split(['`', '{']).next().unwrap().trim_end_matches("_total").trim_end_matches("_info").to_owned()
    };
    let documented: BTreeSet<String> = cells.map(name).collect();
    let files = Files::new();
    let page = Webhook::with_files(&files, &[]).page("/metrics").body;
    let found = page.lines().filter_map(|line| line.strip_prefix("# HELP podgate_webhook_"));
    let served: BTreeSet<String> = found.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(documented, served);
}

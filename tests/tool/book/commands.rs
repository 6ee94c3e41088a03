//! Runs the pages' commands, except those that need a cluster. The commands run with bash, in a directory that has
//! their files.

use super::page::{Copied, Page, needs_a_cluster, needs_a_registry};
use super::shell::{self, bash};
use std::fs;
use tempfile::TempDir;

const HELM: &str = "#!/bin/sh\ncat shop.yaml\n";

/// Deployment with an order that passes `check --strict`.
const SHOP: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  selector:
    matchLabels: {app: shop}
  template:
    metadata:
      labels: {app: shop}
      annotations:
        podgate.io/order: db, api
    spec:
      containers:
      - name: db
        image: registry.example/db:1
        command: [/db]
        readinessProbe: {tcpSocket: {port: 5432}}
      - name: api
        image: registry.example/api:1
        command: [/api]
        readinessProbe: {httpGet: {path: /, port: 8080}}
";
const KRUISE: (&str, &str) = ("podgate.io/order: db, api", "apps.kruise.io/container-launch-priority: Ordered");

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["deploy/web", "manifests"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    shell::set_up(directory.path());
    shell::program(directory.path(), "helm", HELM);
    for name in ["shop.yaml", "deploy.yaml", "deploy/web/shop.yaml", "manifests/shop.yaml"] {
        fs::write(at(name), SHOP).unwrap();
    }
    let made = bash(directory.path(), directory.path(), "kubectl podgate inject shop.yaml >injected.yaml");
    assert_eq!(made.0, Some(0), "{}", made.1);
    directory
}

fn run(command: &Copied) {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    let text = &command.text;
    if text.contains("--from kruise") {
        fs::write(at("shop.yaml"), SHOP.replace(KRUISE.0, KRUISE.1)).unwrap();
    }
    let (code, output) = bash(directory.path(), directory.path(), text);
    // The files are not injected yet, so --check must report changes.
    let expected = if text.contains("--check") { 3 } else { 0 };
    assert_eq!(code, Some(expected), "{}: {text}\n{output}", command.at);

    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    let is_injected = |text: &str| text.contains("name: podgate\n");
    if text.contains("| kubectl apply") {
        assert!(is_injected(&read("applied.yaml")), "{}: {text}", command.at);
    }
    if text.contains("| kubectl replace") {
        assert_eq!(read("applied.yaml"), SHOP, "{}: {text}", command.at);
    }
    let in_place = text.contains(" inject -i ");
    assert_eq!(is_injected(&read("deploy/web/shop.yaml")), in_place, "{}: {text}", command.at);
}

#[test]
fn examples_in_the_help_work() {
    let examples: Vec<Copied> = Page::help_texts().iter().flat_map(Page::examples).collect();
    // `tests/tool/registry` runs these examples, which need a cluster and a registry.
    let has_registry = |text: &str| text.contains("--apply") || text.contains("install --resolve-images");
    let local = examples.iter().filter(|example| !needs_a_cluster(&example.text) && !has_registry(&example.text));
    assert!(local.map(run).count() >= 19, "{examples:#?}");
}

#[test]
fn commands_in_the_readme_work() {
    let commands = Page::read("README.md").in_tables();
    let local = commands.iter().filter(|command| !needs_a_cluster(&command.text));
    assert!(local.map(run).count() >= 3, "{commands:#?}");
}

#[test]
fn commands_on_the_page_about_try_work() {
    let blocks = Page::read("docs/try.md").blocks("sh");
    assert_eq!(blocks.iter().map(run).count(), 2, "{blocks:#?}");
}

#[test]
fn commands_on_the_page_about_inject_work() {
    let blocks = Page::read("docs/inject.md").blocks("sh");
    let line = |text: &str| Copied { text: text.to_owned(), ..blocks[0].clone() };
    let lines: Vec<Copied> = blocks.iter().flat_map(|block| block.text.lines().map(line)).collect();
    // `tests/tool/registry` runs the other commands.
    let local = lines.iter().filter(|line| !needs_a_registry(&line.text));
    assert_eq!(local.map(run).count(), 4, "{lines:#?}");
}

#[test]
fn commands_on_the_page_about_installation_work() {
    let blocks = Page::read("docs/install.md").blocks("sh");
    let line = |text: &str| Copied { text: text.to_owned(), ..blocks[0].clone() };
    // `tests/kubelet/pages/install.rs` runs the other commands.
    let lines = blocks.iter().flat_map(|block| block.text.lines().map(line));
    let lines: Vec<Copied> = lines.filter(|line| line.text.starts_with("kubectl podgate ")).collect();
    let local = lines.iter().filter(|line| !needs_a_cluster(&line.text));
    assert_eq!(local.map(run).count(), 5, "{lines:#?}");
}

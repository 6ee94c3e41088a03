//! Runs every command of `docs/tutorial.md` in order, and compares the output with the page.

use super::{Page, Reader};
use crate::admission::install;
use crate::cluster::{ROOT, kubectl, try_kubectl};
use crate::scene::Scene;
use podgate::order::release;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const NAMESPACE: &str = "podgate-tutorial";

/// Deletes what the tutorial creates, and restores the objects that other scenarios need, on drop.
struct CleanupGuard;

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        let manifests = format!("{ROOT}/manifests");
        for arguments in [
            &["delete", "--ignore-not-found", "-k", &format!("{manifests}/injector")][..],
            &["delete", "--ignore-not-found", "namespace", NAMESPACE],
            &["apply", "-k", &manifests],
        ] {
            let _ = try_kubectl(arguments);
        }
    }
}

/// Runs a block of commands as the user's terminal does, with the directory and the variables of the previous blocks.
/// Stops at the first failed command. Returns the exit code and the output.
fn run_block(reader: &Reader, block: &str) -> (Option<i32>, String) {
    let state = reader.path("state").display().to_string();
    let script = format!(
        "exec 2>&1\nset -euo pipefail\ntrap 'export -p >{state}; printf \"cd %q\\n\" \"$PWD\" >>{state}' EXIT\nset -a\n\
         . {state}\n{}",
        reader.with_replacements(block)
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(reader.directory.path());
    let output = command.env_remove("KUBECONFIG").output().expect("bash");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns commands that create the archives of `make image` from the programs that `prepare` has built.
fn make_image() -> String {
    let archive = |kind: &str, image: &str| {
        format!(
            "tests/cluster/images {kind} --bin-dir $(tools/build --target-dir)/e2e/bin --name {} --output dist/images/{image}.tar\n",
            release::image(image)
        )
    };
    let [sidecar, webhook] = [archive("podgate", "podgate"), archive("webhook", "podgate-webhook")];
    format!("mkdir -p dist/images\n{sidecar}{webhook}ls dist/images/*.tar\n")
}

/// Returns true if the page may show `output` as `shown`. A line `...` stands for any lines.
fn is_shown(shown: &[&str], output: &[&str]) -> bool {
    match (shown, output) {
        ([], _) => output.is_empty(),
        (["...", rest @ ..], _) => (0..=output.len()).any(|skipped| is_shown(rest, &output[skipped..])),
        ([first, rest @ ..], [line, more @ ..]) => is_line_shown(first, line) && is_shown(rest, more),
        (_, []) => false,
    }
}

/// Returns true if the page may show `line` as `shown`, in which `...` stands for any text.
fn is_line_shown(shown: &str, line: &str) -> bool {
    let (shown, line) = (without_numbers(shown), without_numbers(line));
    let Some((first, rest)) = shown.split_once("...") else { return shown == line };
    let parts: Vec<&str> = rest.split("...").collect();
    let (last, middle) = parts.split_last().expect("a part");
    let Some(mut line) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, after)) = line.split_once(part) else { return false };
        line = after;
    }
    line.ends_with(last)
}

/// Replaces each word that differs between runs by `#`: numbers, times, ids, the bars of a chart, and the names of
/// Pods. A duration such as `1.2 s` is two words. Joins neighboring `#`, because a column of a table can be empty in
/// one run.
fn without_numbers(line: &str) -> String {
    let varies = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit() || !c.is_ascii()) || word.contains("/shop-") || word == "s"
    };
    let mut words: Vec<&str> = line.split_whitespace().map(|word| if varies(word) { "#" } else { word }).collect();
    words.dedup_by(|next, word| *next == "#" && *word == "#");
    words.join(" ")
}

/// Returns the expected exit code of a block from its output. The code is 1 if `kubectl` fails, 3 if `status` shows a
/// Pod that waits, otherwise 0.
fn exit_code(shown: &str) -> i32 {
    if shown.contains("\nerror: ") { 1 } else { 3 * i32::from(shown.contains(" is starting: ")) }
}

#[test]
fn shown_output_may_leave_out_lines_and_text() {
    let output = ["created shop", "Pod a/shop-x took 7.51 s.", "read the log", "", "ready"];
    let is_shown = |shown: &str| is_shown(&shown.lines().collect::<Vec<_>>(), &output);
    for shown in [
        "created shop\nPod a/shop-y took 3 s.\nread the log\n\nready",
        "...",
        "...\nready",
        "created shop\n...\nread the ...\n...",
        "created shop\n...took 1 s.\nread ...\n\nre...y",
    ] {
        assert!(is_shown(shown), "{shown}");
    }
    for shown in ["", "created shop", "...\nread the log", "created shop\n...\nread the ... book\n...", "ready\n..."] {
        assert!(!is_shown(shown), "{shown}");
    }
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn tutorial_works_as_written_alone() {
    // `verify` reads the Pods of all namespaces, and the webhook injects Pods in all namespaces.
    let Some(scene) = Scene::exclusive("tutorial") else { return };
    install::assert_nothing_left();
    let _cleanup_guard = CleanupGuard;
    // The scene has applied these objects for other scenarios, but the tutorial starts without them.
    kubectl(&["delete", "-k", &format!("{ROOT}/manifests")]);

    let mut reader = Reader::new(&scene);
    // The commands name the namespace themselves, so this `kubectl` sets none.
    reader.save("bin/kubectl", &format!("#!/bin/sh\nexec {ROOT}/tests/cluster/cluster kubectl \"$@\"\n"));
    reader.save("state", &format!("export PATH={}:$PATH\n", reader.path("bin").display()));
    // A clone in another directory would build everything again, because the directory's path is a flag of the
    // compiler.
    reader.substitute(&format!("git clone {}", release::REPOSITORY), &format!("ln -s {ROOT} podgate"));
    // The release build takes minutes. `prepare` has built the same programs, but the webhook as a debug build.
    reader.substitute("$(make kubectl)", &reader.path("plugins/kubectl-podgate").display().to_string());
    reader.substitute("make image\n", &make_image());
    // With its defaults, `up` would replace a cluster of another version.
    reader.substitute("cluster up\n", "cluster kubeconfig\n");

    let blocks = Page::read("docs/tutorial.md").fenced();
    let mut next = blocks.iter().map(|(info, block)| (info.as_str(), block)).peekable();
    while let Some((info, block)) = next.next() {
        if info != "sh" {
            continue;
        }
        let shown = next.next_if(|(info, _)| *info == "text").map(|(_, shown)| shown);
        let (at, page) = shown.map_or((&block.at, ""), |shown| (&shown.at, shown.text.as_str()));
        let is_as_shown = |(code, output): &(Option<i32>, String)| {
            let [page_lines, lines] = [page, output].map(|text| text.lines().collect::<Vec<_>>());
            *code == Some(exit_code(page)) && (shown.is_none() || is_shown(&page_lines, &lines))
        };
        let mut result = run_block(&reader, &block.text);
        // The published states can be a few seconds old.
        for _ in 0..30 {
            let shows_states = ["podgate status", "podgate timeline"].iter().any(|name| block.text.contains(name));
            if is_as_shown(&result) || !shows_states {
                break;
            }
            sleep(Duration::from_secs(1));
            result = run_block(&reader, &block.text);
        }
        let (code, output) = &result;
        assert!(
            is_as_shown(&result),
            "{at}: the page shows\n{page}\nbut the exit code is {code:?}, and the output of\n{}\nis\n{output}\n{}",
            block.text,
            // Without the Pods and the events, a timeout of `rollout status` has no visible cause.
            try_kubectl(&["get", "pods,events", "--all-namespaces", "-o", "wide"]).unwrap_or_else(|error| error)
        );
    }
    install::assert_nothing_left();
    let gone = try_kubectl(&["get", "namespace", NAMESPACE]);
    assert!(gone.is_err_and(|error| error.contains("NotFound")));
}

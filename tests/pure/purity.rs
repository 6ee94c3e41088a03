//! Tests of rules that the compiler does not enforce. The core does no I/O, only one file has `unsafe` code, and no
//! source file has a `cfg(feature)`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &str) -> Vec<(PathBuf, String)> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut found);
    assert!(!found.is_empty(), "{directory} has no sources");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the lines of code with their numbers. Omits comments and blank lines.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"))
}

/// Returns the paths of all `use` statements. Joins statements that span several lines.
fn uses(text: &str) -> Vec<String> {
    let joined: String = code(text).map(|(_, line)| line).collect::<Vec<_>>().join(" ");
    let statements = joined.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    statements.map(|(path, _)| path.replace(' ', "")).collect()
}

#[test]
fn core_and_order_use_no_clock_io_or_environment() {
    const BANNED: [&str; 8] = ["fs", "net", "env", "process", "thread", "os", "time::Instant", "time::SystemTime"];
    for (path, text) in sources("src/core").into_iter().chain(sources("src/order")) {
        for (number, line) in code(&text) {
            for banned in BANNED {
                assert!(
                    !line.contains(&format!("std::{banned}")) || line.contains("std::process::ExitCode"),
                    "{path:?}:{number}: {line}"
                );
            }
            for banned in
                ["Instant", "SystemTime", "edge::", "rustix", "libc", "inotify", "tracing", "println!", "include_"]
            {
                assert!(!line.contains(banned), "{path:?}:{number}: {line}");
            }
        }
        for list in uses(&text).iter().filter_map(|path| path.strip_prefix("std::{")) {
            for banned in ["fs", "net", "env", "process", "thread", "os"] {
                let named =
                    list.split(['{', ',', '}']).any(|item| item == banned || item.starts_with(&format!("{banned}::")));
                assert!(!named, "{path:?}: use std::{{{list}");
            }
        }
    }
}

/// Fails if a source file in `directories` uses the library's `module`.
fn assert_not_named(module: &str, directories: &[&str]) {
    for (path, text) in directories.iter().flat_map(|directory| sources(directory)) {
        for (number, line) in code(&text) {
            let names = ["crate::", "podgate::", "super::", "mod "].map(|start| format!("{start}{module}"));
            assert!(!names.iter().any(|name| line.contains(name)), "{path:?}:{number}: {line}");
        }
        for path_used in uses(&text) {
            let grouped = ["crate::{", "podgate::{"].iter().find_map(|start| path_used.strip_prefix(start));
            let named = grouped.is_some_and(|list| list.split([',', '}']).any(|item| item.starts_with(module)));
            assert!(!named, "{path:?}: use {path_used}");
        }
    }
}

#[test]
fn core_and_order_use_no_clock_of_podgate() {
    assert_not_named("clock", &["src/core", "src/order"]);
}

#[test]
fn only_the_plugin_and_the_webhook_use_order() {
    assert_not_named("order", &["src/core", "src/edge", "src/bin/podgate", "src/bin/podgate-controller"]);
}

/// `edge` requires Linux, but the plugin also runs on Windows and macOS.
#[test]
fn plugin_does_not_use_edge() {
    assert_not_named("edge", &["src/bin/kubectl-podgate"]);
}

#[test]
fn edge_uses_no_binary_and_no_runtime() {
    for (path, text) in sources("src/edge") {
        for (number, line) in code(&text) {
            for banned in ["tokio", "kube::", "hyper", "clap", "crate::bin"] {
                assert!(!line.contains(banned), "{path:?}:{number}: {line}");
            }
        }
    }
}

#[test]
fn unsafe_is_in_one_file_and_has_reasons() {
    for (path, text) in sources("src") {
        let is_allowed = path.ends_with("edge/sys.rs");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in code(&text) {
            let is_unsafe = line.contains("unsafe {") || line.contains("unsafe fn") || line.contains("unsafe impl");
            assert!(!is_unsafe || is_allowed, "{path:?}:{number}: {line}");
            if is_unsafe {
                let above = lines[..number - 1].iter().rev().take_while(|line| line.starts_with("//"));
                assert!(
                    above.into_iter().any(|line| line.starts_with("// SAFETY:")),
                    "{path:?}:{number} has no SAFETY comment"
                );
            }
        }
    }
    for (path, text) in sources("src/bin").into_iter().filter(|(path, _)| path.ends_with("main.rs")) {
        let is_empty = code(&text).all(|(_, line)| line == "fn main() {}");
        assert!(is_empty || text.contains("#![forbid(unsafe_code)]"), "{path:?}");
    }
}

/// A message may tell somebody to run a command. `command_line` quotes its words, because some of them can be text of
/// another user. A format string with such a command therefore has no argument after the name of the program.
#[test]
fn commands_in_messages_are_quoted() {
    const PROGRAMS: [&str; 5] = ["kubectl ", "curl ", "helm ", "docker ", "crictl "];
    let unquoted = |text: &str| {
        // Join the lines of a string. `\"` inside a string also ends the search, because examples in help texts use it.
        let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
        let joined = lines.join("\n").replace("\\\n", "");
        let strings = joined.split('"').filter(|part| !part.contains('\n'));
        let is_unquoted = |part: &&str| {
            let command = PROGRAMS.iter().filter_map(|program| part.find(&format!(" {program}"))).min();
            command.is_some_and(|at| part[at..].contains('{'))
                || PROGRAMS.iter().any(|program| part.starts_with(program) && part.contains('{'))
        };
        strings.filter(is_unquoted).map(str::to_owned).collect::<Vec<_>>()
    };
    let found: Vec<String> = ["format!(\"run: kubectl logs -n {namespace}\")", "format!(\"curl \\\n{}\", url)"]
        .into_iter()
        .flat_map(unquoted)
        .collect();
    assert_eq!(found, ["run: kubectl logs -n {namespace}", "curl {}"]);
    for (path, text) in sources("src") {
        assert_eq!(unquoted(text.split("#[cfg(test)]").next().unwrap()), [""; 0], "{path:?}");
    }
}

#[test]
fn no_source_file_uses_a_cargo_feature() {
    for (path, text) in sources("src") {
        for (number, line) in code(&text) {
            assert!(!(line.contains("cfg") && line.contains("feature")), "{path:?}:{number}: {line}");
        }
    }
}

/// Expands `a::{b,c::{d,e}}` into `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str) -> Vec<String> {
    let Some((start, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (mut depth, mut item, mut items) = (0, String::new(), Vec::new());
    for letter in rest[..rest.rfind('}').unwrap_or(rest.len())].chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 { items.push(std::mem::take(&mut item)) } else { item.push(letter) }
    }
    items.push(item);
    items.iter().flat_map(|item| expand(item)).map(|item| format!("{start}{item}")).collect()
}

/// Modules, each with the modules whose items it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns the files of a crate, each with the files whose items it uses. `root` is the directory of the crate.
fn imports(root: &str) -> Uses {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let module = |path: &Path| {
        let relative = path.strip_prefix(&directory).unwrap().with_extension("");
        let parts =
            relative.iter().map(|part| part.to_str().unwrap()).filter(|part| !["mod", "main", "lib"].contains(part));
        parts.collect::<Vec<_>>().join("::")
    };
    let is_program = root.starts_with("src/bin/");
    let files = sources(root).into_iter().filter(|(path, _)| is_program || !path.starts_with(directory.join("bin")));
    let files: Vec<(String, String)> = files.map(|(path, text)| (module(&path), text)).collect();
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let mut found = Uses::new();
    for (name, text) in &files {
        let parent = name.rsplit_once("::").map_or("", |(parent, _)| parent);
        let production = text.split("#[cfg(test)]").next().unwrap();
        let resolve = |path: String| {
            let path = match (path.strip_prefix("crate::"), path.strip_prefix("super::")) {
                (Some(rest), _) => rest.to_owned(),
                (_, Some(rest)) => format!("{parent}::{rest}"),
                _ => return None,
            };
            // Find the longest prefix that is a file. The rest is the name of an item.
            let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
            while !parts.is_empty() && !names.contains(parts.join("::").as_str()) {
                parts.pop();
            }
            Some(parts.join("::"))
                .filter(|used| !used.is_empty() && used != name && !name.starts_with(&format!("{used}::")))
        };
        let used = uses(production).iter().flat_map(|path| expand(path)).filter_map(resolve).collect();
        found.insert(name.clone(), used);
    }
    assert!(found.values().any(|used| !used.is_empty()), "{found:?}");
    found
}

/// Returns the modules that use each other in a circle, and the modules that use such modules.
fn circles(mut left: Uses) -> Uses {
    // Repeatedly remove the modules that use only removed modules. Modules in a circle remain.
    loop {
        let free: Vec<String> = left.iter().filter(|(_, used)| used.is_empty()).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            return left;
        }
        left.retain(|name, _| !free.contains(name));
        left.values_mut().for_each(|used| used.retain(|name| !free.contains(name)));
    }
}

/// Returns the directories that contain `files`, as prefixes of the files' names: `order::declare::`, or an empty text
/// for the root of the crate.
fn directories(files: &Uses) -> BTreeSet<&str> {
    let starts = files.keys().flat_map(|file| file.match_indices("::").map(move |(at, end)| &file[..at + end.len()]));
    starts.chain([""]).collect()
}

/// Returns the files and directories that are directly in `directory`. Joins the files of each of these directories.
fn join_below(directory: &str, files: &Uses) -> Uses {
    let below = |file: &String| Some(file.strip_prefix(directory)?.split("::").next().unwrap().to_owned());
    let mut joined = Uses::new();
    for (file, used) in files {
        let Some(own) = below(file) else { continue };
        let used = used.iter().filter_map(below).filter(|used| *used != own).collect::<Vec<_>>();
        joined.entry(own).or_default().extend(used);
    }
    joined
}

/// Two modules that use each other can only be read together. A parent module may be used by the files below it. In the
/// sidecar, `model` uses `input`, and `output` uses `model`, so a use in the other direction is a circle.
#[test]
fn files_and_directories_use_each_other_without_a_circle() {
    let programs = ["podgate", "podgate-controller", "kubectl-podgate", "podgate-webhook"];
    for root in programs.map(|name| format!("src/bin/{name}")).into_iter().chain(["src".to_owned()]) {
        let files = imports(&root);
        for directory in directories(&files) {
            let left = circles(join_below(directory, &files));
            assert!(left.is_empty(), "{root}, {directory:?}: these use each other, or modules that do: {left:#?}");
        }
    }
}

/// Tests that the previous test sees each program's modules, and finds a circle at each depth.
#[test]
fn added_use_in_the_other_direction_is_a_circle() {
    for (root, directory, user, used) in [
        ("src/bin/podgate-controller", "", "model", "input"),
        ("src/bin/podgate-controller", "", "output", "model"),
        ("src/bin/podgate-controller", "", "api", "output"),
        ("src/bin/podgate-controller", "", "run", "probe"),
        ("src/bin/podgate", "", "common", "check"),
        ("src/bin/podgate", "", "common", "args"),
        ("src", "", "order", "core"),
        ("src", "order::", "plan", "declare"),
        ("src", "order::", "declare", "sidecar_settings"),
        ("src", "order::declare::", "reader", "values"),
    ] {
        let mut files = imports(root);
        assert!(directories(&files).contains(directory), "{root} has no {directory:?}");
        let joined = join_below(directory, &files);
        assert!(joined[user].contains(used), "{root}, {directory:?}: {user} does not use {used}");
        // Two files that do not use each other are enough for a circle of their directories.
        files.insert(format!("{directory}{used}::new"), BTreeSet::from([format!("{directory}{user}::other")]));
        let left = circles(join_below(directory, &files));
        assert!(left.contains_key(user) && left.contains_key(used), "{root}, {directory:?}: {left:?}");
    }
}

/// Container images are built without the directories of tests and benches. Cargo fails on a missing target unless the
/// target has a `path`.
#[test]
fn every_target_has_a_path() {
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let targets: Vec<&str> = manifest.split("\n[[").skip(1).map(|rest| rest.split("\n[").next().unwrap()).collect();
    assert!(targets.len() > 10, "{targets:?}");
    for target in targets {
        assert!(target.contains("\npath = "), "no path: [[{target}");
    }
}

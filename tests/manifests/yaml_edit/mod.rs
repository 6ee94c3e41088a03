//! Tests of the YAML editor, and of the commands `kubectl podgate inject` and `uninject`: unchanged text, new text, and
//! messages.

mod broken;
mod corpus;
mod edits;
mod files;
mod growth;
mod passing;
mod properties;
mod reports;

// The editor is part of the plugin's binary, which tests cannot import.
#[allow(dead_code, unused_imports, reason = "the plugin uses all of it")]
#[path = "../../../src/bin/kubectl-podgate/yaml/mod.rs"]
mod yaml;

use crate::hang_guard::HANG_GUARD;
use assert_cmd::Command;
use std::fs;
use std::path::Path;

/// Result of a run: exit code, standard output, standard error.
struct Run {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program with an empty environment and `input` on its standard input.
fn run(arguments: &[&str], input: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-podgate"));
    // The time limit kills a process that hangs. A killed process has no exit code.
    command.env_clear().timeout(HANG_GUARD);
    let output = command.args(arguments).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program and returns its output. Fails unless the exit code is 0.
fn done(arguments: &[&str], input: &str) -> String {
    let run = run(arguments, input);
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
    run.out
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Asserts that `new` has all lines of `old` in the same order, except lines that contain a part in `may_change`.
fn assert_lines_kept(old: &str, new: &str, may_change: &[&str]) {
    let mut rest = new.lines();
    for line in old.lines().filter(|line| !may_change.iter().any(|part| line.contains(part))) {
        assert!(rest.any(|new| new == line), "{line:?} is missing or has moved in\n{new}");
    }
}

/// Pod in the usual style that declares an order.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: shop  # ours
  annotations:
    # db first
    podgate.io/order: db, api
spec:
  containers:
  # waits for db
  - name: api
    image: api:1
    command: [\"/api\"]

  # the database
  - name: db
    image: postgres:17
    command: [postgres, -c, 'fsync=off']
    readinessProbe:
      tcpSocket: {port: 5432}
";

#[test]
fn docs_state_the_nesting_limit() {
    let docs = |name: &str| fs::read_to_string(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let deep = format!("a: {}{}\n", "[".repeat(90), "]".repeat(90));
    let err = run(&["inject", "-"], &deep).err;
    assert!(err.contains("nested more than 80 levels deep") && docs("inject.md").contains("up to 80 levels"), "{err}");
}

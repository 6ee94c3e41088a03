//! Directory in which a page's commands run without a cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Fake kubectl. Runs the plugin, returns one Deployment for `get`, and stores the manifests of `apply` and `replace`.
const KUBECTL: &str = r#"#!/bin/sh
case $1 in
podgate) shift && exec kubectl-podgate "$@" ;;
get) cat injected.yaml ;;
*) cat >applied.yaml ;;
esac
"#;

/// Puts the fake kubectl and the plugin into `bin`.
pub(crate) fn set_up(directory: &Path) {
    fs::create_dir_all(directory.join("bin")).unwrap();
    program(directory, "kubectl", KUBECTL);
    symlink(env!("CARGO_BIN_EXE_kubectl-podgate"), directory.join("bin/kubectl-podgate")).unwrap();
}

/// Writes an executable script into `bin`.
pub(crate) fn program(directory: &Path, name: &str, script: &str) {
    let path = directory.join("bin").join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a script in `directory`. Returns the script's exit code, with standard output and standard error in one text.
pub(crate) fn bash(directory: &Path, home: &Path, script: &str) -> (Option<i32>, String) {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("PATH=$PWD/bin:$PATH\n{script}")])
        .current_dir(directory)
        .env("HOME", home)
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

//! Folder to run a page's commands in, without a cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Fake kubectl: runs the plugin, has one Deployment to get, and stores what is applied or replaced.
const KUBECTL: &str = r#"#!/bin/sh
case $1 in
podgate) shift && exec kubectl-podgate "$@" ;;
get) cat injected.yaml ;;
*) cat >applied.yaml ;;
esac
"#;

/// Puts the fake kubectl and the plugin into `bin`.
pub(crate) fn set_up(folder: &Path) {
    fs::create_dir_all(folder.join("bin")).unwrap();
    program(folder, "kubectl", KUBECTL);
    symlink(env!("CARGO_BIN_EXE_kubectl-podgate"), folder.join("bin/kubectl-podgate")).unwrap();
}

/// Writes a script into `bin`.
pub(crate) fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join("bin").join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a script in `folder`; returns its exit code and all its output.
pub(crate) fn bash(folder: &Path, home: &Path, script: &str) -> (Option<i32>, String) {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("PATH=$PWD/bin:$PATH\n{script}")])
        .current_dir(folder)
        .env("HOME", home)
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

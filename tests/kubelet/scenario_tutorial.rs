//! `docs/tutorial.md`: every command on it, in order, as a reader would type it.

use crate::cluster::{BUSYBOX, IMAGE, ROOT, attempt};
use crate::scene::Scene;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

/// The bodies of the page's code blocks of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let parts = page.split(&opening).skip(1);
    parts.map(|part| part.split_once("```").expect("a block ends").0.to_owned()).collect()
}

#[test]
#[ignore = "needs a cluster: make e2e"]
fn the_tutorial_works_as_it_is_written() {
    // Nothing else takes the role away from others that run beside it: the cluster's own objects are only shown to be deletable.
    let scene = Scene::shared("tutorial");
    let namespace = format!("{}-reader", scene.namespace);
    let page = fs::read_to_string(format!("{ROOT}/docs/tutorial.md")).expect("the page");
    let here = |text: &str| {
        let text = text.replace("podgate-tutorial", &namespace).replace("docker.io/library/busybox:1.37", BUSYBOX);
        let text = text.replace("podgate inject ", &format!("podgate inject --image {IMAGE} "));
        text.replace("delete -k manifests", "delete --dry-run=server -k manifests")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    let program = option_env!("CARGO_BIN_EXE_kubectl-podgate").unwrap_or("kubectl-podgate");
    symlink(program, bin.join("kubectl-podgate")).expect("a link");
    symlink(format!("{ROOT}/manifests"), folder.path().join("manifests")).expect("a link");
    let kubectl = bin.join("kubectl");
    fs::write(&kubectl, format!("#!/bin/sh\nexec {ROOT}/tests/cluster/cluster kubectl \"$@\"\n")).expect("a script");
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).expect("a script");
    fs::write(folder.path().join("shop.yaml"), here(&blocks(&page, "yaml")[0])).expect("the manifest");

    let commands: String = blocks(&page, "sh").iter().map(|block| here(block)).collect();
    let script = format!("PATH=$PWD/bin:$PATH\n{commands}");
    let output = Command::new("bash")
        .args(["-euxo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let _ = attempt(&["kubectl", "delete", "namespace", &namespace, "--wait=false", "--ignore-not-found"], "");
        panic!("{all}");
    }
    let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {all}"));
    assert!(
        at("missed db") < at("missed api") && at("missed api") < at("found db") && at("found db") < at("found api")
    );
    assert!(at("found api") < at("until web, the last one, was Ready"), "{all}");
    let picture = &said[at("until web, the last one, was Ready")..];
    scene.tell(picture.lines().skip(2).take(5).collect::<Vec<_>>().join("\n").as_str());
    let gone = attempt(&["kubectl", "get", "namespace", &namespace], "");
    assert!(gone.is_err_and(|error| error.contains("NotFound")), "{all}");
}
